package dev.starling.nn.layer;

/** Creates convolutions over 3 spatial dimensions. */
public final class Conv3d {
    private Conv3d() {
    }

    /**
     * Returns a builder of a convolution {@code [N, in, D, H, W]} to {@code [N, out, ..]}.
     *
     * @param in input channels
     * @param out output channels
     * @param kernel kernel sizes, or one size for all dimensions
     */
    public static Conv.Builder of(long in, long out, int... kernel) {
        return new Conv.Builder(3, in, out, kernel);
    }
}
