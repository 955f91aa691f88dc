//! The registers of a thread, by the numbers that DWARF gives them.

/// Registers that have a number below this are kept.
const COUNT: usize = 33;

/// The registers of a thread at one instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    by_number: [u64; COUNT],
    /// The address of the instruction.
    pub(super) pc: u64,
}

#[cfg(target_arch = "x86_64")]
mod numbers {
    /// The places in the kernel's list of the registers 0 to 15: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
    pub(super) const PLACES: [i32; 16] = [
        libc::REG_RAX,
        libc::REG_RDX,
        libc::REG_RCX,
        libc::REG_RBX,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_RBP,
        libc::REG_RSP,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    pub(super) const STACK_POINTER: u16 = 7;
    pub(super) const RETURN_ADDRESS: u16 = 16;
}

#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(super) const STACK_POINTER: u16 = 31;
    pub(super) const RETURN_ADDRESS: u16 = 30;
}

/// The register that points to the end of the stack.
pub(super) const STACK_POINTER: u16 = numbers::STACK_POINTER;
/// The register, or the name, of the address to which a function returns.
pub(super) const RETURN_ADDRESS: u16 = numbers::RETURN_ADDRESS;

impl Registers {
    /// Of an interrupted thread, or of one that asked for its own context.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of(context: &libc::ucontext_t) -> Self {
        let list = &context.uc_mcontext.gregs;
        let value = |place: i32| usize::try_from(place).ok().and_then(|place| list.get(place)).copied();
        let number = |place: i32| value(place).unwrap_or_default().cast_unsigned();
        let mut by_number = [0; COUNT];
        for (register, place) in by_number.iter_mut().zip(numbers::PLACES) {
            *register = number(place);
        }
        Self { by_number, pc: number(libc::REG_RIP) }
    }

    /// Of an interrupted thread, or of one that asked for its own context.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn of(context: &libc::ucontext_t) -> Self {
        let machine = &context.uc_mcontext;
        let mut by_number = [0; COUNT];
        for (register, value) in by_number.iter_mut().zip(machine.regs.into_iter().chain([machine.sp])) {
            *register = value;
        }
        Self { by_number, pc: machine.pc }
    }

    pub(super) fn get(&self, number: u16) -> Option<u64> {
        self.by_number.get(usize::from(number)).copied()
    }

    pub(super) fn set(&mut self, number: u16, value: u64) {
        if let Some(register) = self.by_number.get_mut(usize::from(number)) {
            *register = value;
        }
    }

    pub(super) fn stack_pointer(&self) -> u64 {
        self.get(STACK_POINTER).unwrap_or_default()
    }
}
