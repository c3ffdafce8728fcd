package dev.starling.tensor.cpu.x86;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Encodes instructions of x86-64. General registers and vector registers are numbered as in the processor's manual.
 * Constants are gathered and placed behind the code.
 */
public final class Assembler {
    public static final int RAX = 0;
    public static final int RCX = 1;
    public static final int RDX = 2;
    public static final int RBX = 3;
    public static final int RSP = 4;
    public static final int RBP = 5;
    public static final int RSI = 6;
    public static final int RDI = 7;
    private static final int ALIGNMENT = 64;

    /** Conditions of {@link #jump}. */
    public enum Condition {
        BELOW(2), ABOVE_OR_EQUAL(3), ZERO(4), NOT_ZERO(5), ALWAYS(-1);

        private final int code;

        Condition(int code) {
            this.code = code;
        }
    }

    /** General instructions of two operands, of which the first is a register that receives the result. */
    public enum General {
        ADD(0x03), SUB(0x2B), AND(0x23), XOR(0x33), COMPARE(0x3B), MOVE(0x8B), MULTIPLY(0xFAF), TEST(0x85),
        LOAD_ADDRESS(0x8D), SIGNED_BYTE(0xFBE), BYTE(0xFB6), SIGNED_WORD(0xFBF);

        private final int opcode;

        General(int opcode) {
            this.opcode = opcode;
        }
    }

    private ByteBuffer code = ByteBuffer.allocate(1024).order(ByteOrder.LITTLE_ENDIAN);
    private ByteBuffer constants = ByteBuffer.allocate(256).order(ByteOrder.LITTLE_ENDIAN);
    private final Map<LongBuffer, Integer> places = new HashMap<>();
    /** Places in the code that hold a distance from their own end: to a label, or into the constants. */
    private final List<Reference> references = new ArrayList<>();
    private int[] labels = new int[8];
    private int labelCount;

    private record Reference(int at, int end, int label, int constant) { }

    /** Returns the code, followed by its constants. */
    public byte[] assemble() {
        int pool = (code.position() + ALIGNMENT - 1) & -ALIGNMENT;
        for (Reference reference : references) {
            int target = reference.label < 0 ? pool + reference.constant : labels[reference.label];
            code.putInt(reference.at, target - reference.end);
        }
        byte[] all = Arrays.copyOf(code.array(), pool + constants.position());
        Arrays.fill(all, code.position(), pool, (byte) 0xCC);
        System.arraycopy(constants.array(), 0, all, pool, constants.position());
        return all;
    }

    /** Returns the place of 8-byte words among the constants; equal words share it. */
    public Address constant(long... words) {
        LongBuffer key = LongBuffer.wrap(words.clone());
        Integer known = places.get(key);
        if (known != null) {
            return Address.of(Address.CONSTANTS, known);
        }
        int at = (constants.position() + 8 * words.length - 1) & -8 * Integer.highestOneBit(words.length);
        constants = room(constants, at - constants.position() + 8 * words.length);
        constants.position(at);
        for (long word : words) {
            constants.putLong(word);
        }
        places.put(key, at);
        return Address.of(Address.CONSTANTS, at);
    }

    private static ByteBuffer room(ByteBuffer buffer, int bytes) {
        if (buffer.remaining() >= bytes) {
            return buffer;
        }
        byte[] grown = Arrays.copyOf(buffer.array(), 2 * (buffer.capacity() + bytes));
        return ByteBuffer.wrap(grown).order(ByteOrder.LITTLE_ENDIAN).position(buffer.position());
    }

    /** Appends bytes as they are. */
    public void bytes(int... values) {
        code = room(code, values.length + 32);
        for (int value : values) {
            code.put((byte) value);
        }
    }

    /** Makes a label, which {@link #bind} places. */
    public int label() {
        if (labelCount == labels.length) {
            labels = Arrays.copyOf(labels, 2 * labelCount);
        }
        return labelCount++;
    }

    /** Places a label here. */
    public void bind(int label) {
        labels[label] = code.position();
    }

    /** Jumps to a label if the condition holds. */
    public void jump(Condition condition, int label) {
        if (condition == Condition.ALWAYS) {
            bytes(0xE9);
        } else {
            bytes(0x0F, 0x80 | condition.code);
        }
        references.add(new Reference(code.position(), code.position() + 4, label, 0));
        code.putInt(0);
    }

    /** Returns the position of the next instruction. */
    public int position() {
        return code.position();
    }

    /** Overwrites the four bytes before {@code end}, the immediate operand of an instruction that ends there. */
    public void patch(int end, int immediate) {
        code.putInt(end - 4, immediate);
    }

    /** Two registers; 64 bits. */
    public void general(General instruction, int target, int source) {
        general(true, instruction.opcode, target, source);
    }

    /** A register and memory; 64 bits. */
    public void general(General instruction, int target, Address source) {
        general(true, instruction.opcode, target, source);
    }

    /** Loads 32 bits, with zeros above. */
    public void load32(int target, Address source) {
        general(false, General.MOVE.opcode, target, source);
    }

    /** Fetches a cache line into the second-level cache. */
    public void prefetch(Address address) {
        general(false, 0xF18, 2, address);
    }

    /** Fetches a cache line that will be written. */
    public void prefetchWritten(Address address) {
        general(false, 0xF0D, 1, address);
    }

    /** Stores the low {@code bytes} bytes (1, 2, 4 or 8) of a register. */
    public void store(int bytes, Address target, int source) {
        if (bytes == 2) {
            bytes(0x66);
        }
        general(bytes == 8, bytes == 1 ? 0x88 : 0x89, source, target);
    }

    /** Adds an immediate. */
    public void add(int target, int immediate) {
        immediate(0, target, immediate);
    }

    /** Subtracts an immediate; the result's four last bytes are the immediate. */
    public void sub(int target, int immediate) {
        immediate(5, target, immediate);
    }

    /** The bits that an immediate has too. */
    public void and(int target, int immediate) {
        immediate(4, target, immediate);
    }

    private void immediate(int operation, int target, int immediate) {
        general(true, 0x81, operation, target);
        code.putInt(immediate);
    }

    /** Sets a register to an immediate, which is extended with its sign. */
    public void set(int target, int immediate) {
        general(true, 0xC7, 0, target);
        code.putInt(immediate);
    }

    /** Shifts left by the low bits of {@link #RCX}. */
    public void shiftLeft(int target) {
        general(true, 0xD3, 4, target);
    }

    /** Negates; the carry is set unless the result is 0. */
    public void negate(int target) {
        general(true, 0xF7, 3, target);
    }

    /** Sets a register to -1 if the carry is set, else to 0. */
    public void fillWithCarry(int target) {
        general(true, 0x1B, target, target);
    }

    public void push(int register) {
        if (register > 7) {
            bytes(0x41);
        }
        bytes(0x50 | register & 7);
    }

    public void pop(int register) {
        if (register > 7) {
            bytes(0x41);
        }
        bytes(0x58 | register & 7);
    }

    private void general(boolean wide, int opcode, int register, int other) {
        bytes(0x40 | (wide ? 8 : 0) | register >> 3 << 2 | other >> 3);
        opcode(opcode);
        bytes(0xC0 | (register & 7) << 3 | other & 7);
    }

    private void general(boolean wide, int opcode, int register, Address memory) {
        int index = memory.index() < 0 ? 0 : memory.index() >> 3;
        int base = memory.base() < 0 ? 0 : memory.base() >> 3;
        bytes(0x40 | (wide ? 8 : 0) | register >> 3 << 2 | index << 1 | base);
        opcode(opcode);
        memory(register, memory, 0);
    }

    private void opcode(int opcode) {
        if (opcode > 0xFF) {
            bytes(0x0F);
        }
        bytes(opcode & 0xFF);
    }

    /** The operand's bytes; {@code after} bytes of the instruction follow them. */
    private void memory(int register, Address memory, int after) {
        int field = (register & 7) << 3;
        if (memory.base() == Address.CONSTANTS) {
            bytes(field | 5);
            references.add(new Reference(code.position(), code.position() + 4 + after, -1, memory.displacement()));
            code.putInt(0);
            return;
        }
        int base = memory.base() & 7;
        if (memory.index() >= 0 || base == RSP) {
            int index = memory.index() < 0 ? RSP : memory.index() & 7;
            bytes(0x80 | field | 4, Integer.numberOfTrailingZeros(memory.scale()) << 6 | index << 3 | base);
        } else {
            bytes(0x80 | field | base);
        }
        code.putInt(memory.displacement());
    }

    /**
     * An AVX-512 instruction of registers.
     *
     * @param bits width of the vectors: 128, 256 or 512
     * @param mask the mask register whose elements are written, or 0 for all
     * @param zeroes whether the other elements become 0 instead of keeping their value
     */
    public void evex(Simd op, int bits, int register, int second, int third, int mask, boolean zeroes) {
        evexPrefix(op, bits, register, second, ~third >> 4 & 1, ~third >> 3 & 1, mask, zeroes, false);
        bytes(op.opcode, 0xC0 | (register & 7) << 3 | third & 7);
    }

    /**
     * The same with the last operand in memory.
     *
     * @param repeated whether it is one element that serves all
     * @param after bytes of an immediate that follows, which the caller appends
     */
    public void evex(Simd op, int bits, int register, int second, Address third, boolean repeated, int mask,
            boolean zeroes, int after) {
        int index = third.index() < 0 ? 1 : ~third.index() >> 3 & 1;
        int base = third.base() < 0 ? 1 : ~third.base() >> 3 & 1;
        evexPrefix(op, bits, register, second, index, base, mask, zeroes, repeated);
        bytes(op.opcode);
        memory(register, third, after);
    }

    private void evexPrefix(Simd op, int bits, int register, int second, int x, int b, int mask, boolean zeroes,
            boolean repeated) {
        bytes(0x62, (~register >> 3 & 1) << 7 | x << 6 | b << 5 | (~register >> 4 & 1) << 4 | op.map,
                op.wide << 7 | (~second & 15) << 3 | 4 | op.prefix,
                (zeroes ? 0x80 : 0) | bits / 256 << 5 | (repeated ? 0x10 : 0) | (~second >> 4 & 1) << 3 | mask);
    }

    /** An instruction of registers, by AVX-512 for vectors of 512 bits and by AVX2 for shorter ones. */
    public void vector(Simd op, int bits, int register, int second, int third) {
        if (bits == 512) {
            evex(op, bits, register, second, third, 0, false);
        } else {
            vex(op, bits, register, second, third);
        }
    }

    /** The same with the last operand in memory, or the only one. */
    public void vector(Simd op, int bits, int register, int second, Address third) {
        if (bits == 512) {
            evex(op, bits, register, second, third, false, 0, false, 0);
        } else {
            vex(op, bits, register, second, third, 0);
        }
    }

    /** An AVX or mask instruction of registers. */
    public void vex(Simd op, int bits, int register, int second, int third) {
        vexPrefix(op, bits, register, second, 1, ~third >> 3 & 1);
        bytes(op.opcode, 0xC0 | (register & 7) << 3 | third & 7);
    }

    /** The same with the last operand in memory; the caller appends an immediate of {@code after} bytes. */
    public void vex(Simd op, int bits, int register, int second, Address third, int after) {
        int index = third.index() < 0 ? 1 : ~third.index() >> 3 & 1;
        int base = third.base() < 0 ? 1 : ~third.base() >> 3 & 1;
        vexPrefix(op, bits, register, second, index, base);
        bytes(op.opcode);
        memory(register, third, after);
    }

    private void vexPrefix(Simd op, int bits, int register, int second, int x, int b) {
        bytes(0xC4, (~register >> 3 & 1) << 7 | x << 6 | b << 5 | op.map,
                op.wide << 7 | (~second & 15) << 3 | (bits == 256 ? 4 : 0) | op.prefix);
    }
}
