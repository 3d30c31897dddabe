//! Where uids and name suffixes come from: the operating system, or a seed so that a simulation repeats itself.

use kardinal_apimodel::Ids;

/// The letters kube uses in generated names: no vowels, nothing that is mistaken for something else.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;

/// A source of identifiers.
#[derive(Debug)]
pub(crate) enum IdSource {
    /// Random and unguessable.
    Random,
    /// The same sequence for the same seed.
    Seeded(u64),
}

impl IdSource {
    pub(crate) fn new(seed: Option<u64>) -> IdSource {
        seed.map_or(IdSource::Random, IdSource::Seeded)
    }

    fn bits(&mut self) -> u128 {
        match self {
            IdSource::Random => uuid::Uuid::new_v4().as_u128(),
            IdSource::Seeded(state) => (u128::from(next(state)) << 64) | u128::from(next(state)),
        }
    }
}

/// SplitMix64: short, and good enough to keep names apart.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Ids for IdSource {
    fn uid(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.bits().to_be_bytes()).into_uuid().to_string()
    }

    fn suffix(&mut self) -> String {
        // The low 64 bits of a random UUID hold two fixed bits at the top; the lower ones are all random.
        let mut bits = self.bits() & ((1 << 60) - 1);
        let base = ALPHABET.len() as u128;
        (0..SUFFIX)
            .filter_map(|_| {
                let letter = usize::try_from(bits % base).ok().and_then(|index| ALPHABET.get(index));
                bits /= base;
                letter.map(|byte| char::from(*byte))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn draw(mut source: IdSource) -> Vec<String> {
        (0..500).flat_map(|_| [source.uid(), source.suffix()]).collect()
    }

    #[test]
    fn seeds_repeat_and_chance_does_not() {
        assert_eq!(draw(IdSource::new(Some(7))), draw(IdSource::new(Some(7))));
        assert_ne!(draw(IdSource::new(Some(7))), draw(IdSource::new(Some(8))));
        assert_ne!(draw(IdSource::new(None)), draw(IdSource::new(None)));
    }

    #[test]
    fn shapes_are_those_of_kubernetes() {
        for source in [IdSource::new(None), IdSource::new(Some(1))] {
            let all = draw(source);
            let uids: BTreeSet<&String> = all.iter().step_by(2).collect();
            assert_eq!(uids.len(), 500);
            assert!(uids.iter().all(|uid| uid.len() == 36 && uid.as_bytes()[14] == b'4'));
            let suffixes: BTreeSet<&String> = all.iter().skip(1).step_by(2).collect();
            assert!(suffixes.len() > 490);
            assert!(suffixes.iter().all(|s| s.len() == 5 && s.bytes().all(|b| ALPHABET.contains(&b))));
        }
    }
}
