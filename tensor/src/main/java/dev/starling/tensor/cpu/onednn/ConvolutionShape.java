package dev.starling.tensor.cpu.onednn;

/**
 * The sizes of a convolution over one to three spatial dimensions: source {@code [N, IC, in…]}, weights
 * {@code [OC, IC / groups, kernel…]}, destination {@code [N, OC, out…]}. All arrays have one entry per spatial
 * dimension; a dilation of 1 means none. A transposed convolution is the backward pass by data of a convolution.
 */
public record ConvolutionShape(long batch, long inChannels, long outChannels, long groups, long[] in, long[] out,
                               long[] kernel, long[] stride, long[] dilation, long[] padLow, long[] padHigh) {
    /** Checks that the sizes are consistent. */
    public ConvolutionShape {
        require(in.length >= 1 && in.length <= 3, "1 to 3 spatial dimensions, got " + in.length);
        require(batch > 0 && inChannels > 0 && outChannels > 0, "no empty dimension");
        require(groups > 0 && inChannels % groups == 0 && outChannels % groups == 0,
            "channels " + inChannels + " and " + outChannels + " divisible by groups " + groups);
        for (int i = 0; i < in.length; i++) {
            long extent = (kernel[i] - 1) * dilation[i] + 1;
            long expected = (in[i] + padLow[i] + padHigh[i] - extent) / stride[i] + 1;
            require(in[i] > 0 && out[i] > 0 && out[i] == expected,
                "output size " + expected + " in spatial dimension " + i + ", got " + out[i]);
        }
    }

    /** The same convolution with fewer output channels. */
    ConvolutionShape withOutChannels(long channels) {
        return new ConvolutionShape(batch, inChannels, channels, groups, in, out, kernel, stride, dilation, padLow,
            padHigh);
    }

    long sourceCount() {
        return batch * inChannels * product(in);
    }

    long destinationCount() {
        return batch * outChannels * product(out);
    }

    long weightCount() {
        return outChannels * (inChannels / groups) * product(kernel);
    }

    /** Returns the number of spatial dimensions. */
    public int spatialDims() {
        return in.length;
    }

    long[] sourceDims(long samples) {
        return dims(samples, inChannels, in);
    }

    long[] destinationDims(long samples) {
        return dims(samples, outChannels, out);
    }

    long[] weightDims() {
        if (groups == 1) {
            return dims(outChannels, inChannels, kernel);
        }
        long[] plain = dims(outChannels / groups, inChannels / groups, kernel);
        long[] grouped = new long[plain.length + 1];
        grouped[0] = groups;
        System.arraycopy(plain, 0, grouped, 1, plain.length);
        return grouped;
    }

    /** Returns the strides, for {@link #weightDims}, of weights given as {@code [OC, IC / groups, kernel…]}. */
    long[] weightStrides(long[] strides) {
        if (groups == 1) {
            return strides;
        }
        long[] grouped = new long[strides.length + 1];
        grouped[0] = strides[0] * (outChannels / groups);
        System.arraycopy(strides, 0, grouped, 1, strides.length);
        return grouped;
    }

    double flops() {
        return 2.0 * batch * product(out) * weightCount();
    }

    void addTo(Key key, long samples) {
        key.add(samples).add(inChannels).add(outChannels).add(groups).add(in.length)
            .add(in).add(out).add(kernel).add(stride).add(dilation).add(padLow).add(padHigh);
    }

    private static long product(long[] sizes) {
        long product = 1;
        for (long size : sizes) {
            product *= size;
        }
        return product;
    }

    private static long[] dims(long first, long second, long[] spatial) {
        long[] dims = new long[spatial.length + 2];
        dims[0] = first;
        dims[1] = second;
        System.arraycopy(spatial, 0, dims, 2, spatial.length);
        return dims;
    }

    private static void require(boolean holds, String requirement) {
        if (!holds) {
            throw new IllegalArgumentException("convolution needs " + requirement);
        }
    }
}
