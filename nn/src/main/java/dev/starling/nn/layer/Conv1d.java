package dev.starling.nn.layer;

/** Creates convolutions over 1 spatial dimension. */
public final class Conv1d {
    private Conv1d() {
    }

    /**
     * Returns a builder of a convolution {@code [N, in, L]} to {@code [N, out, ..]}.
     *
     * @param in input channels
     * @param out output channels
     * @param kernel kernel sizes, or one size for all dimensions
     */
    public static Conv.Builder of(long in, long out, int... kernel) {
        return new Conv.Builder(1, in, out, kernel);
    }
}
