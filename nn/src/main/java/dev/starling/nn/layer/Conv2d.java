package dev.starling.nn.layer;

/** Makes convolutions over 2 spatial dimensions. */
public final class Conv2d {
    private Conv2d() {
    }

    /**
     * Begins a convolution {@code [N, in, H, W]} to {@code [N, out, ..]}.
     *
     * @param in channels
     * @param out channels
     * @param kernel sizes, or one size for all dimensions
     */
    public static Conv.Builder of(long in, long out, int... kernel) {
        return new Conv.Builder(2, in, out, kernel);
    }
}
