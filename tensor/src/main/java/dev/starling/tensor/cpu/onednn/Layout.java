package dev.starling.tensor.cpu.onednn;

/** Dimensions and strides, both in elements, in oneDNN's order. */
record Layout(ElementType type, long[] dims, long[] strides) {

    /** Returns the layout of {@code [N, C, spatial…]} stored as {@code [N, spatial…, C]} without gaps. */
    static Layout channelsLast(ElementType type, long[] dims) {
        return new Layout(type, dims, channelsLastStrides(dims));
    }

    static long[] channelsLastStrides(long[] dims) {
        long[] strides = new long[dims.length];
        strides[1] = 1;
        long stride = dims[1];
        for (int i = dims.length - 1; i > 1; i--) {
            strides[i] = stride;
            stride *= dims[i];
        }
        strides[0] = stride;
        return strides;
    }

    /**
     * Returns whether these strides store {@code [N, C, spatial…]} channels last; strides of dimensions of size 1 are
     * ignored.
     */
    static boolean isChannelsLast(long[] dims, long[] strides) {
        if (dims[1] > 1 && strides[1] != 1) {
            return false;
        }
        long expected = dims[1];
        for (int i = dims.length - 1; i > 1; i--) {
            if (dims[i] > 1 && strides[i] != expected) {
                return false;
            }
            expected *= dims[i];
        }
        return dims[0] == 1 || strides[0] == expected;
    }

    /** Makes a memory descriptor, which the caller destroys. */
    long desc() {
        return Dnnl.strided(type, dims, strides);
    }
}
