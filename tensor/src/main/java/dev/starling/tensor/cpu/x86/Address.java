package dev.starling.tensor.cpu.x86;

/**
 * An operand in memory: {@code base + index * scale + displacement}.
 *
 * @param base number of a general register, or {@link #CONSTANTS}, so that the displacement is a place among the
 *     constants behind the code
 * @param index number of a general register, or {@link #NONE}
 */
public record Address(int base, int index, int scale, int displacement) {
    /** No index. */
    public static final int NONE = -1;
    /** The constants of the code. */
    public static final int CONSTANTS = -2;

    /** The operand at {@code base + displacement}. */
    public static Address of(int base, int displacement) {
        return new Address(base, NONE, 1, displacement);
    }

    /** The operand {@code bytes} behind this one. */
    public Address plus(int bytes) {
        return new Address(base, index, scale, displacement + bytes);
    }
}
