package dev.starling.nn.layer;

/** Creates convolutions over 2 spatial dimensions. */
public final class Conv2d {
    private Conv2d() {
    }

    /**
     * Returns a builder of a convolution {@code [N, in, H, W]} to {@code [N, out, ..]}.
     *
     * @param in input channels
     * @param out output channels
     * @param kernel kernel sizes, or one size for all dimensions
     */
    public static Conv.Builder of(long in, long out, int... kernel) {
        return new Conv.Builder(2, in, out, kernel);
    }
}
