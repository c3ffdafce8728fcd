package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.op.Pooling;

/**
 * Average pooling over two spatial dimensions; one over a single dimension has images of height 1.
 *
 * @param type of all operands
 * @param channelsLast whether channels of a pixel are neighbours
 * @param countPadding whether zeros of the padding count
 * @param images how many
 * @param channels of an image
 * @param height of an image
 * @param width of an image
 * @param outHeight height of the result
 * @param outWidth width of the result
 * @param kernelHeight height of a window
 * @param kernelWidth width of a window
 * @param strideHeight distance of neighbouring windows, downwards
 * @param strideWidth distance of neighbouring windows, to the right
 * @param paddingHeight zeros above and below
 * @param paddingWidth zeros on both sides
 */
public record PoolingCall(DType type, boolean channelsLast, boolean countPadding, int images, int channels, int height,
        int width, int outHeight, int outWidth, int kernelHeight, int kernelWidth, int strideHeight, int strideWidth,
        int paddingHeight, int paddingWidth) {
    /**
     * Returns the call for images of a shape, or {@code null} where libraries have none: three spatial dimensions,
     * dilation, windows that reach beyond the padding, which count no element there.
     */
    public static PoolingCall of(Pooling.Window window, boolean countPadding, DType type, boolean channelsLast,
            Shape x, Shape y) {
        int rank = window.rank();
        if (rank > 2 || x.count() == 0 || x.count() > Integer.MAX_VALUE || y.count() > Integer.MAX_VALUE) {
            return null;
        }
        for (int i = 0; i < rank; i++) {
            long reach = (y.dim(i + 2) - 1) * window.stride()[i] + window.kernel()[i];
            if (window.dilation()[i] != 1 || reach > x.dim(i + 2) + 2L * window.padding()[i]) {
                return null;
            }
        }
        return new PoolingCall(type, channelsLast, countPadding, (int) x.dim(0), (int) x.dim(1), size(x, 0),
                size(x, 1), size(y, 0), size(y, 1), of(window.kernel(), 0, 1), of(window.kernel(), 1, 1),
                of(window.stride(), 0, 1), of(window.stride(), 1, 1), of(window.padding(), 0, 0),
                of(window.padding(), 1, 0));
    }

    private static int size(Shape shape, int dimension) {
        int axis = shape.rank() - 2 + dimension;
        return axis < 2 ? 1 : Math.toIntExact(shape.dim(axis));
    }

    private static int of(int[] values, int dimension, int missing) {
        int i = values.length - 2 + dimension;
        return i < 0 ? missing : values[i];
    }
}
