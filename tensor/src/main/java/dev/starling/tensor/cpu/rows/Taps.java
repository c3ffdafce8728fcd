package dev.starling.tensor.cpu.rows;

/** The pixels that make up one pixel: the elements of its window, or the windows that it is an element of. */
public final class Taps {
    /** Where the first channel of each lies. */
    final long[] address;
    /** The index of each within its plane. */
    final int[] place;
    /** The share of each. */
    final float[] weight;
    int count;

    /** Makes an empty list with room for {@code capacity} taps. */
    public Taps(int capacity) {
        address = new long[capacity];
        place = new int[capacity];
        weight = new float[capacity];
    }

    /** Forgets all taps. */
    public void clear() {
        count = 0;
    }

    /** Appends a tap. */
    public void add(long addressOf, int placeOf, float weightOf) {
        address[count] = addressOf;
        place[count] = placeOf;
        weight[count++] = weightOf;
    }
}
