//! The files that are mapped into this process as code, and what they say of themselves: where each is, how its functions are
//! unwound, its build id and its symbols.
//!
//! The files are those that the kernel loaded, but everything read from them is bounded and checked all the same: what does
//! not fit is as if it were not there.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, UnwindContext, UnwindSection, UnwindTableRow,
};
use rubelet_core::profile::Mapping;

/// Most bytes of one section: the symbols of a build for tests have some ten MiB.
const MOST: u64 = 128 << 20;
/// Most sections and segments of a file.
const MOST_HEADERS: u16 = 1024;

const PT_LOAD: u32 = 1;
const PF_X: u64 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const NT_GNU_BUILD_ID: u32 = 3;
const SHT_SYMTAB: u32 = 2;
const STT_FUNC: u8 = 2;

/// A mapped file.
pub(super) struct Module {
    pub(super) mapping: Mapping,
    /// What is added to an address in the file to get the one in memory.
    bias: u64,
    unwinding: Option<Unwinding>,
    symbols: Option<Symbols>,
}

/// The tables by which functions are unwound.
struct Unwinding {
    frames: Section,
    index: Section,
}

struct Symbols {
    table: Vec<u8>,
    names: Vec<u8>,
}

/// A part of a file, and its address.
struct Section {
    address: u64,
    data: Vec<u8>,
}

/// Every mapped file, by its first address.
pub(super) fn modules(proc_self: &Path) -> BTreeMap<u64, Module> {
    let maps = std::fs::read_to_string(proc_self.join("maps")).unwrap_or_default();
    let program = std::fs::read_link(proc_self.join("exe")).ok();
    let program = program.as_deref().and_then(Path::to_str);
    let module = |line: &str| {
        let mapping = mapping(line)?;
        // The file of the program may have been replaced meanwhile.
        let file =
            if Some(mapping.file.as_str()) == program { proc_self.join("exe") } else { mapping.file.clone().into() };
        Some((mapping.start, Module::read(mapping, &file)))
    };
    maps.lines().filter_map(module).collect()
}

/// `55d0-55d8 r-xp 00001000 fe:00 123   /usr/bin/rubelet`, of which the path may have spaces.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let file = words.nth(2)?.trim_start();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        file: file.to_owned(),
        build_id: String::new(),
        has_symbols: false,
    };
    (rights.contains('x') && file.starts_with('/')).then_some(mapping)
}

impl Module {
    fn read(mapping: Mapping, path: &Path) -> Self {
        let mut module = Self { mapping, bias: 0, unwinding: None, symbols: None };
        if let Ok(file) = File::open(path) {
            module.fill(&Elf { file });
        }
        module
    }

    /// `None` at the first thing that is not as expected: what was found before stays.
    fn fill(&mut self, elf: &Elf) -> Option<()> {
        let head = elf.at(0, 64)?;
        (head.get(..6)? == [0x7f, b'E', b'L', b'F', 2, 1]).then_some(())?;
        let mut index = None;
        for segment in elf.headers(number(&head, 32, 8)?, number(&head, 54, 2)?, number(&head, 56, 2)?)? {
            let (offset, address, size) = (number(&segment, 8, 8)?, number(&segment, 16, 8)?, number(&segment, 32, 8)?);
            // A mapping begins at a page, a segment somewhere in it.
            let (begin, length) = (self.mapping.offset, self.mapping.end.checked_sub(self.mapping.start)?);
            let overlaps = begin < offset.checked_add(size)? && offset < begin.checked_add(length)?;
            let is_code = number(&segment, 4, 4)? & PF_X != 0;
            match u32::try_from(number(&segment, 0, 4)?).ok()? {
                PT_LOAD if is_code && overlaps => {
                    let in_file = address.wrapping_sub(offset).wrapping_add(begin);
                    self.bias = self.mapping.start.wrapping_sub(in_file);
                }
                PT_NOTE => self.mapping.build_id = build_id(&elf.at(offset, size)?).unwrap_or_default(),
                PT_GNU_EH_FRAME => index = Some(Section { address, data: elf.at(offset, size)? }),
                _ => {}
            }
        }
        let sections = elf.headers(number(&head, 40, 8)?, number(&head, 58, 2)?, number(&head, 60, 2)?)?;
        let place = |section: &[u8]| Some((number(section, 24, 8)?, number(section, 32, 8)?));
        let names = sections.get(usize::try_from(number(&head, 62, 2)?).ok()?)?;
        let names = place(names).and_then(|(offset, size)| elf.at(offset, size))?;
        for section in &sections {
            let name = text(&names, number(section, 0, 4)?)?;
            let (offset, size) = place(section)?;
            if name == ".eh_frame" && index.is_some() {
                let frames = Section { address: number(section, 16, 8)?, data: elf.at(offset, size)? };
                self.unwinding = index.take().map(|index| Unwinding { frames, index });
            } else if number(section, 4, 4)? == u64::from(SHT_SYMTAB) {
                let of_names = sections.get(usize::try_from(number(section, 40, 4)?).ok()?)?;
                let (at, length) = place(of_names)?;
                self.symbols = Some(Symbols { table: elf.at(offset, size)?, names: elf.at(at, length)? });
                self.mapping.has_symbols = true;
            }
        }
        Some(())
    }

    /// How the function at this address is unwound there.
    pub(super) fn row<'c>(
        &self,
        context: &'c mut UnwindContext<usize>,
        address: u64,
    ) -> Option<&'c UnwindTableRow<usize>> {
        let unwinding = self.unwinding.as_ref()?;
        let bases =
            BaseAddresses::default().set_eh_frame(unwinding.frames.address).set_eh_frame_hdr(unwinding.index.address);
        let index = EhFrameHdr::new(&unwinding.index.data, NativeEndian).parse(&bases, 8).ok()?;
        let frames: EhFrame<EndianSlice<'_, NativeEndian>> = EhFrame::new(&unwinding.frames.data, NativeEndian);
        let address = address.wrapping_sub(self.bias);
        let entry = index.table()?.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
        entry.unwind_info_for_address(&frames, &bases, context, address).ok()
    }

    /// Adds the names of the functions at these addresses, which are in ascending order.
    pub(super) fn name(&self, addresses: &[u64], names: &mut BTreeMap<u64, String>) {
        let Some(symbols) = &self.symbols else { return };
        for entry in symbols.table.chunks_exact(24) {
            let is_function = entry.get(4).is_some_and(|info| info & 0xf == STT_FUNC);
            let (Some(value), Some(size), true) = (number(entry, 8, 8), number(entry, 16, 8), is_function) else {
                continue;
            };
            let start = value.wrapping_add(self.bias);
            let Some(end) = start.checked_add(size) else { continue };
            let first = addresses.partition_point(|address| *address < start);
            for address in addresses.get(first..).unwrap_or_default().iter().take_while(|address| **address < end) {
                if let Some(name) = number(entry, 0, 4).and_then(|at| text(&symbols.names, at)) {
                    names.insert(*address, name.to_owned());
                }
            }
        }
    }
}

/// An ELF file.
struct Elf {
    file: File,
}

impl Elf {
    fn at(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        let length = self.file.metadata().ok()?.len();
        (size <= MOST && offset.checked_add(size)? <= length).then_some(())?;
        let mut data = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut data, offset).ok()?;
        Some(data)
    }

    fn headers(&self, offset: u64, size: u64, count: u64) -> Option<Vec<Vec<u8>>> {
        (count <= u64::from(MOST_HEADERS) && size >= 56).then_some(())?;
        let all = self.at(offset, size.checked_mul(count)?)?;
        Some(all.chunks_exact(usize::try_from(size).ok()?).map(<[u8]>::to_vec).collect())
    }
}

fn build_id(notes: &[u8]) -> Option<String> {
    let mut rest = notes;
    loop {
        let length = |at| usize::try_from(number(rest, at, 4)?).ok();
        let (name, description) = (length(0)?, length(4)?);
        let begin = 12_usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let content = rest.get(begin..begin.checked_add(description)?)?;
        if number(rest, 8, 4)? == u64::from(NT_GNU_BUILD_ID) && rest.get(12..16)? == b"GNU\0" {
            return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        rest = rest.get(begin.checked_add(description.checked_next_multiple_of(4)?)?..)?;
    }
}

/// A number of so many bytes, the lowest first.
fn number(data: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A text that ends with a zero byte.
fn text(data: &[u8], at: u64) -> Option<&str> {
    let rest = data.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_map_is_a_mapping_if_it_is_code_of_a_file() {
        let line = "55d0a000-55d0c000 r-xp 00001000 fe:00 123                        /opt/my files/rubelet";
        let found = mapping(line).expect("a mapping");
        assert_eq!((found.start, found.end, found.offset), (0x55d0_a000, 0x55d0_c000, 0x1000));
        assert_eq!(found.file, "/opt/my files/rubelet");
        for line in [
            "55d0a000-55d0c000 r--p 00001000 fe:00 123  /usr/bin/rubelet",
            "7ffd0000-7ffd1000 r-xp 00000000 00:00 0    [vdso]",
            "7ffd0000-7ffd1000 rwxp 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(mapping(line), None, "{line}");
        }
    }

    #[test]
    fn hostile_a_file_that_is_cut_anywhere_is_a_module_without_tables() {
        let whole = std::fs::read("/proc/self/exe").expect("this program");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cut");
        for length in [0, 3, 40, 64, 100, 1000, 4096] {
            std::fs::write(&path, whole.get(..length).expect("it is longer")).expect("written");
            let line = "1000-2000 r-xp 00000000 fe:00 1 /cut";
            let module = Module::read(mapping(line).expect("a mapping"), &path);
            assert!(module.unwinding.is_none() && module.symbols.is_none(), "{length} bytes");
        }
    }
}
