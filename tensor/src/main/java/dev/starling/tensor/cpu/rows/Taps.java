package dev.starling.tensor.cpu.rows;

/** The pixels that contribute to one pixel: the elements of its window, or the windows that contain it. */
public final class Taps {
    /** The address of the first channel of each tap. */
    final long[] address;
    /** The index of each tap within its plane. */
    final int[] place;
    /** The weight of each tap. */
    final float[] weight;
    int count;

    /** Makes an empty list with room for {@code capacity} taps. */
    public Taps(int capacity) {
        address = new long[capacity];
        place = new int[capacity];
        weight = new float[capacity];
    }

    /** Returns for how many taps there is room. */
    public int capacity() {
        return address.length;
    }

    /** Removes all taps. */
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
