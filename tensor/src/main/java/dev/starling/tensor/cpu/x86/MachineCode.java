package dev.starling.tensor.cpu.x86;

import static dev.starling.tensor.cpu.x86.Assembler.General.XOR;
import static dev.starling.tensor.cpu.x86.Assembler.RAX;
import static dev.starling.tensor.cpu.x86.Assembler.RBX;
import static dev.starling.tensor.cpu.x86.Assembler.RCX;
import static dev.starling.tensor.cpu.x86.Assembler.RDX;

import dev.starling.tensor.host.NativeCall;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * Functions of five integers that this process has assembled. Calls are short: the JVM's collectors wait for their end.
 * Linux on x86-64 with AVX2 and FMA, unless the system property {@code starling.native-loops} is {@code false}.
 */
public final class MachineCode {
    /** The widest vectors for which code may be made in this process, in bits: 512, 256, or 0 for none. */
    public static final int VECTOR_BITS;
    private static final String PROPERTY = "starling.native-loops";
    private static final String OBSTACLE;

    static {
        String obstacle = obstacle();
        int bits = 0;
        if (obstacle.isEmpty()) {
            bits = Processor.vectorBits();
            obstacle = bits > 0 ? "" : Processor.executes() ? "the processor has no AVX2 and FMA"
                    : "the system allows no executable memory";
        }
        VECTOR_BITS = bits;
        OBSTACLE = obstacle;
    }

    private final MemorySegment entry;

    private MachineCode(long address) {
        entry = MemorySegment.ofAddress(address);
    }

    private static String obstacle() {
        if ("false".equals(System.getProperty(PROPERTY))) {
            return "the system property " + PROPERTY + "=false disables it";
        }
        boolean known = System.getProperty("os.name").equals("Linux") && System.getProperty("os.arch").equals("amd64");
        return known ? "" : "it is made for Linux on x86-64 only";
    }

    /** Returns in a few words what kind of loops this process runs, and why. */
    public static String description() {
        return VECTOR_BITS == 0 ? "loops run as bytecode, not as machine code: " + OBSTACLE
                : "loops run as machine code for " + (VECTOR_BITS == 512 ? "AVX-512" : "AVX2");
    }

    /** Returns the function of assembled code, or {@code null} if there is no more memory for it. */
    public static @Nullable MachineCode of(Assembler assembler) {
        long address = CodeMemory.publish(assembler.assemble(), false);
        return address == 0 ? null : new MachineCode(address);
    }

    /**
     * Returns the function of assembled code, of which a program has a bounded number and for which memory is set
     * aside.
     *
     * @throws IllegalStateException if the operating system refuses the memory, or if all that is reserved is used
     */
    public static MachineCode required(Assembler assembler) {
        long address = CodeMemory.publish(assembler.assemble(), true);
        if (address == 0) {
            throw new IllegalStateException("there is no more executable memory for machine code; start the JVM with -D"
                    + PROPERTY + "=false");
        }
        return new MachineCode(address);
    }

    /** Calls the function, whose arguments are in RDI, RSI, RDX, RCX and R8, and whose result is in RAX. */
    public long call(long a, long b, long c, long d, long e) {
        return NativeCall.callBriefly(entry, a, b, c, d, e);
    }

    /** Calls the function with the address of an array's elements in RDI. */
    public long call(MemorySegment array, long b, long c, long d, long e) {
        return NativeCall.callBriefly(entry, array, b, c, d, e);
    }

    /** What the processor can do, by its own account: the instruction {@code CPUID}. */
    private static final class Processor {
        private static final int OS_SAVES = 1 << 27;
        private static final int AVX_FMA = 1 << 28 | 1 << 12;
        private static final int AVX2 = 1 << 5;
        /** AVX-512 F, DQ, BW and VL. */
        private static final int AVX512 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
        private static final int YMM_STATE = 6;
        private static final int ZMM_STATE = 0xE6;
        private static final @Nullable MachineCode IDENTIFY = identify();

        static boolean executes() {
            return IDENTIFY != null;
        }

        /** Assembles the function whose result is register {@code c} (0 EBX, 1 ECX) of {@code CPUID} leaf a, b. */
        private static @Nullable MachineCode identify() {
            Assembler code = new Assembler();
            int second = code.label();
            int end = code.label();
            code.general(Assembler.General.MOVE, RAX, Assembler.RDI);
            code.general(Assembler.General.MOVE, RCX, Assembler.RSI);
            code.general(Assembler.General.MOVE, 8, RDX);
            code.general(Assembler.General.MOVE, 9, RBX);
            code.bytes(0x0F, 0xA2);
            code.general(Assembler.General.TEST, 8, 8);
            code.jump(Assembler.Condition.NOT_ZERO, second);
            code.general(Assembler.General.MOVE, RAX, RBX);
            code.jump(Assembler.Condition.ALWAYS, end);
            code.bind(second);
            code.general(Assembler.General.MOVE, RAX, RCX);
            code.bind(end);
            code.general(Assembler.General.MOVE, RBX, 9);
            code.bytes(0xC3);
            return of(code);
        }

        /** Returns the vector registers that the operating system saves: the low half of {@code XCR0}. */
        private static long saved() {
            Assembler code = new Assembler();
            code.general(XOR, RCX, RCX);
            code.bytes(0x0F, 0x01, 0xD0, 0xC3);
            MachineCode read = of(code);
            return read == null ? 0 : read.call(0, 0, 0, 0, 0);
        }

        static int vectorBits() {
            MachineCode identify = IDENTIFY;
            if (identify == null) {
                return 0;
            }
            long first = identify.call(1, 0, 1, 0, 0);
            if (!has(first, OS_SAVES | AVX_FMA)) {
                return 0;
            }
            long seventh = identify.call(7, 0, 0, 0, 0);
            long state = saved();
            if (has(seventh, AVX2 | AVX512) && has(state, ZMM_STATE)) {
                return 512;
            }
            return has(seventh, AVX2) && has(state, YMM_STATE) ? 256 : 0;
        }

        private static boolean has(long features, int all) {
            return ((int) features & all) == all;
        }
    }
}
