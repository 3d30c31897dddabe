//! The PromotionStep's part of the sentence: one Bundle on its way into one environment.
