package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.op.Convolution;

/**
 * A convolution with two spatial dimensions. A one-dimensional convolution has images of height 1.
 *
 * @param type of all operands
 * @param images number of images
 * @param channels channels of an image
 * @param height height of an image
 * @param width width of an image
 * @param outputs channels of the result
 * @param kernelHeight height of the kernel
 * @param kernelWidth width of the kernel
 * @param outHeight height of the result
 * @param outWidth width of the result
 * @param strideHeight vertical distance of neighbouring positions
 * @param strideWidth horizontal distance of neighbouring positions
 * @param paddingHeight zeros above and below
 * @param paddingWidth zeros on the left and on the right
 * @param dilationHeight vertical distance of kernel elements
 * @param dilationWidth horizontal distance of kernel elements
 * @param groups number of groups of channels
 */
public record ConvolutionCall(DType type, int images, int channels, int height, int width, int outputs,
        int kernelHeight, int kernelWidth, int outHeight, int outWidth, int strideHeight, int strideWidth,
        int paddingHeight, int paddingWidth, int dilationHeight, int dilationWidth, int groups) {
    /**
     * Returns whether libraries can index all elements: one or two spatial dimensions, and at most 2^31 - 1 elements.
     */
    public static boolean supports(Convolution.Geometry g, Shape... shapes) {
        for (Shape shape : shapes) {
            if (shape.count() == 0 || shape.count() > Integer.MAX_VALUE) {
                return false;
            }
        }
        return g.rank() <= 2;
    }

    /** Returns the call for operands of the given shapes, of one or two spatial dimensions. */
    public static ConvolutionCall of(Convolution.Geometry g, DType type, Shape x, Shape weight, Shape y) {
        return new ConvolutionCall(type, (int) x.dim(0), (int) x.dim(1), size(x, 0), size(x, 1), (int) y.dim(1),
                size(weight, 0), size(weight, 1), size(y, 0), size(y, 1), of(g.stride(), 0, 1), of(g.stride(), 1, 1),
                of(g.padding(), 0, 0), of(g.padding(), 1, 0), of(g.dilation(), 0, 1), of(g.dilation(), 1, 1),
                g.groups());
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
