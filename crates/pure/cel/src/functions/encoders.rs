//! Bytes as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{Library, global, no_overload};
use crate::budget::{Context, excerpt};
use crate::fault::{Fault, argument};
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[global("base64.encode", 1, encode), global("base64.decode", 1, decode)],
};

/// Padding may be left out when reading.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn encode<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Bytes(bytes)] => {
            context.charge_bytes(bytes.len() / 3 * 4)?;
            Ok(Value::text(STANDARD.encode(bytes)))
        }
        _ => Err(no_overload("base64.encode", args)),
    }
}

fn decode<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            match LENIENT.decode(text.as_bytes()) {
                Ok(bytes) => Ok(Value::Bytes(bytes.into())),
                Err(_) => Err(argument(format!("`{}` is not base64", excerpt(text)))),
            }
        }
        _ => Err(no_overload("base64.decode", args)),
    }
}
