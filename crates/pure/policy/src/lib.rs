//! Policy: what a gate says about a Bundle, why, and until when.
