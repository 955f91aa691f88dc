//! A profile as a message of pprof.

use std::collections::BTreeMap;

use rubelet_core::profile::{Profile, ProfileKind};
use rubelet_proto::pprof;

/// What a profile is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// CPU time.
    Cpu,
    /// Memory in use.
    InUse,
    /// Memory that was allocated.
    Allocated,
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    places: BTreeMap<String, i64>,
    table: Vec<String>,
}

impl Texts {
    fn add(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = i64::try_from(self.table.len()).unwrap_or_default();
        self.table.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }

    fn value_type(&mut self, (what, unit): (&str, &str)) -> pprof::ValueType {
        pprof::ValueType { r#type: self.add(what), unit: self.add(unit) }
    }
}

/// The message. Names of values are Go's, by which pprof knows what they are. upstream: Go's runtime/pprof
pub(super) fn encode(profile: &Profile, shown: Shown) -> pprof::Profile {
    let mut texts = Texts::default();
    texts.add("");
    let (types, period_type, period): (&[(&str, &str)], _, _) = match profile.kind {
        ProfileKind::Cpu { every } => {
            let types = &[("samples", "count"), ("cpu", "nanoseconds")];
            (types, ("cpu", "nanoseconds"), u64::try_from(every.as_nanos()).unwrap_or(u64::MAX))
        }
        ProfileKind::Heap { every } => {
            let types = &[
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ];
            (types, ("space", "bytes"), every)
        }
    };
    let sample_type = types.iter().map(|of| texts.value_type(*of)).collect();
    let default_sample_type = match shown {
        Shown::Cpu => 0,
        Shown::InUse => texts.add("inuse_space"),
        Shown::Allocated => texts.add("alloc_space"),
    };
    let mut comment = Vec::new();
    if let ProfileKind::Heap { .. } = profile.kind {
        comment.push(texts.add("Only memory that was allocated while the profile was taken."));
    }
    if profile.lost > 0 {
        comment.push(texts.add(&format!("{} samples were lost.", profile.lost)));
    }
    let mapping = mappings(profile, &mut texts);
    let (function, functions) = functions(profile, &mut texts);
    let (location, locations) = locations(profile, &functions);
    let sample = profile.samples.iter().map(|sample| pprof::Sample {
        location_id: sample.stack.iter().filter_map(|address| locations.get(address).copied()).collect(),
        value: sample.values.iter().map(|value| signed(*value)).collect(),
    });
    pprof::Profile {
        sample_type,
        sample: sample.collect(),
        mapping,
        location,
        function,
        time_nanos: i64::try_from(profile.began.as_nanosecond()).unwrap_or_default(),
        duration_nanos: i64::try_from(profile.lasted.as_nanos()).unwrap_or(i64::MAX),
        period_type: Some(texts.value_type(period_type)),
        period: signed(period),
        comment,
        default_sample_type,
        string_table: texts.table,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn mappings(profile: &Profile, texts: &mut Texts) -> Vec<pprof::Mapping> {
    let mapping = |(mapping, id): (&rubelet_core::profile::Mapping, u64)| pprof::Mapping {
        id,
        memory_start: mapping.start,
        memory_limit: mapping.end,
        file_offset: mapping.offset,
        filename: texts.add(&mapping.file),
        build_id: texts.add(&mapping.build_id),
        has_functions: mapping.has_symbols,
    };
    profile.mappings.iter().zip(1..).map(mapping).collect()
}

/// Functions, and the id of each by its name.
fn functions<'p>(profile: &'p Profile, texts: &mut Texts) -> (Vec<pprof::Function>, BTreeMap<&'p str, u64>) {
    let mut names: Vec<&str> = profile.functions.values().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let function = |(name, id): (&&str, u64)| {
        let name = texts.add(name);
        pprof::Function { id, name, system_name: name }
    };
    let functions = names.iter().zip(1..).map(function).collect();
    (functions, names.into_iter().zip(1..).collect())
}

/// Addresses, and the id of each.
fn locations(profile: &Profile, functions: &BTreeMap<&str, u64>) -> (Vec<pprof::Location>, BTreeMap<u64, u64>) {
    let mut addresses: Vec<u64> = profile.samples.iter().flat_map(|sample| sample.stack.iter().copied()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let location = |(address, id): (&u64, u64)| {
        let function = profile.functions.get(address).and_then(|name| functions.get(name.as_str()));
        let in_mapping = |(mapping, id): (&rubelet_core::profile::Mapping, u64)| {
            (mapping.start..mapping.end).contains(address).then_some(id)
        };
        pprof::Location {
            id,
            mapping_id: profile.mappings.iter().zip(1..).find_map(in_mapping).unwrap_or_default(),
            address: *address,
            line: function.map(|id| pprof::Line { function_id: *id }).into_iter().collect(),
        }
    };
    let all = addresses.iter().zip(1..).map(location).collect();
    (all, addresses.into_iter().zip(1..).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use rubelet_core::profile::{Mapping, ProfileSample};

    use super::*;

    #[test]
    fn section_27_2_a_profile_is_a_message_of_pprof() {
        let mapping = Mapping {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            file: "/usr/bin/rubelet".into(),
            build_id: "c0de".into(),
            has_symbols: true,
        };
        let profile = Profile {
            kind: ProfileKind::Cpu { every: Duration::from_millis(10) },
            began: Timestamp::UNIX_EPOCH,
            lasted: Duration::from_secs(1),
            samples: vec![ProfileSample { stack: vec![0x1010, 0x1800, 0x9000], values: vec![2, 20_000_000] }],
            mappings: vec![mapping],
            functions: BTreeMap::from([(0x1010, "leaf".to_owned()), (0x1800, "main".to_owned())]),
            lost: 3,
        };
        let message = encode(&profile, Shown::Cpu);
        let text = |place: i64| message.string_table[usize::try_from(place).unwrap()].as_str();
        assert_eq!(text(0), "", "pprof wants it");
        let types: Vec<_> = message.sample_type.iter().map(|of| (text(of.r#type), text(of.unit))).collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        assert_eq!(message.sample.len(), 1);
        assert_eq!(
            (&*message.sample[0].location_id, &*message.sample[0].value),
            (&[1, 2, 3][..], &[2, 20_000_000][..])
        );
        let mappings: Vec<u64> = message.location.iter().map(|location| location.mapping_id).collect();
        assert_eq!(mappings, [1, 1, 0], "the last address is in no file");
        let names: Vec<_> = message.function.iter().map(|function| (function.id, text(function.name))).collect();
        assert_eq!(names, [(1, "leaf"), (2, "main")]);
        assert_eq!(message.location[1].line, [pprof::Line { function_id: 2 }]);
        assert_eq!(message.comment.iter().map(|place| text(*place)).collect::<Vec<_>>(), ["3 samples were lost."]);
        assert_eq!((message.duration_nanos, message.period), (1_000_000_000, 10_000_000));
    }
}
