//! The PolicyGate's part of the sentence: what a gate says now, and when it will say something else.
