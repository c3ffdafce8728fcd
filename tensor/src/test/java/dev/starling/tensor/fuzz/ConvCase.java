package dev.starling.tensor.fuzz;

import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.tensor.cpu.onednn.ConvScratch;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * One pass of a convolution, and its result by plain loops. Elements are small integers, so that every sum is exact in
 * f32 whatever its order.
 *
 * @param pass the computation
 * @param type of all operands
 * @param batch number of images
 * @param groups number of groups of channels
 * @param in input channels per group
 * @param out output channels per group
 * @param axes one to three spatial dimensions
 * @param layout of the input images
 * @param bias whether there is a bias, or its gradient
 * @param relu whether the forward pass applies ReLU
 * @param threads maximum number of threads
 */
record ConvCase(Pass pass, DType type, int batch, int groups, int in, int out, List<Axis> axes, Layout layout,
                boolean bias, boolean relu, int threads) {
    /** The computation. */
    enum Pass { FORWARD, INPUT_GRADIENT, TRANSPOSED, WEIGHT_GRADIENT }

    /** The memory layout of operands. */
    enum Layout { ROWS, CHANNELS_LAST, STEPPED, OFFSET, REVERSED }

    /** One spatial dimension. */
    record Axis(int size, int kernel, int stride, int padding, int dilation) {
        long places() {
            return Math.floorDiv(size + 2L * padding - (long) dilation * (kernel - 1) - 1, (long) stride) + 1;
        }

        @Override
        public String toString() {
            return "new Axis(" + size + ", " + kernel + ", " + stride + ", " + padding + ", " + dilation + ")";
        }
    }

    boolean isLegal() {
        return batch > 0 && groups > 0 && in > 0 && out > 0 && threads > 0 && !axes.isEmpty() && axes.stream().allMatch(
                a -> a.size > 0 && a.kernel > 0 && a.stride > 0 && a.padding >= 0 && a.dilation > 0
                && a.places() > 0);
    }

    /** Returns the error in the result, or {@code null}. */
    String failure() {
        try (Scope _ = Scope.open()) {
            Tensor[] results = Threads.with(threads, this::compute);
            double[] expected = expected();
            String difference = difference("result", results[0], expected);
            if (difference == null && results.length > 1) {
                difference = difference("bias", results[1], biasGradient());
            }
            return difference;
        } catch (RuntimeException | Error e) {
            StackTraceElement[] trace = e.getStackTrace();
            return e + (trace.length == 0 ? "" : " at " + trace[0]);
        }
    }

    private Tensor[] compute() {
        Tensor x = pass == Pass.FORWARD || pass == Pass.WEIGHT_GRADIENT ? operand(xShape(), 1, layout) : null;
        Tensor w = pass == Pass.WEIGHT_GRADIENT ? null : operand(wShape(), 2, layout == Layout.OFFSET ? layout
                : Layout.values()[layout.ordinal() & 1]);
        Tensor g = pass == Pass.FORWARD ? null : operand(yShape(), 3, layout);
        Tensor b = bias ? operand(Shape.of(pass == Pass.TRANSPOSED ? xShape().dim(1) : yShape().dim(1)), 4, Layout.ROWS)
                : null;
        poison();
        return switch (pass) {
            case FORWARD -> new Tensor[] {Convolutions.conv(x, w, b, geometry(), relu ? Epilogue.RELU
                    : Epilogue.NONE)};
            case INPUT_GRADIENT -> Tensor.apply(new Convolution.ConvInputGradient(geometry(), xShape()), g, w);
            case TRANSPOSED -> new Tensor[] {Convolutions.convTranspose(g, w, b, geometry(), outputPadding())};
            case WEIGHT_GRADIENT -> Tensor.apply(new Convolution.ConvWeightGradient(geometry(), wShape(), bias), x, g);
        };
    }

    /** Fills with NaN the memory that the allocator returns next, and oneDNN's scratch memory. */
    private void poison() {
        Tensor[] soon = new Tensor[3];
        Shape shape = pass == Pass.FORWARD ? yShape() : pass == Pass.WEIGHT_GRADIENT ? wShape() : xShape();
        for (int i = 0; i < soon.length; i++) {
            soon[i] = Storage.allocate(operandSpec(shape));
            HostMemory.ALL.asSlice(soon[i].address(), soon[i].spec().bytes()).fill((byte) -1);
        }
        for (Tensor one : soon) {
            one.close();
        }
        ConvScratch.poison();
    }

    private dev.starling.tensor.Spec operandSpec(Shape shape) {
        return new dev.starling.tensor.Spec(type, shape, dev.starling.tensor.Device.cpu());
    }

    private Geometry geometry() {
        return new Geometry(axes.stream().mapToInt(Axis::stride).toArray(),
                axes.stream().mapToInt(Axis::padding).toArray(), axes.stream().mapToInt(Axis::dilation).toArray(),
                groups);
    }

    private int[] outputPadding() {
        return axes.stream().mapToInt(a -> Math.toIntExact(a.size - ((a.places() - 1) * a.stride - 2 * a.padding
                + a.dilation * (a.kernel - 1) + 1))).toArray();
    }

    private Shape xShape() {
        return shape(batch, groups * in, axes.stream().mapToLong(Axis::size).toArray());
    }

    private Shape wShape() {
        return shape(groups * out, in, axes.stream().mapToLong(Axis::kernel).toArray());
    }

    private Shape yShape() {
        return shape(batch, groups * out, axes.stream().mapToLong(Axis::places).toArray());
    }

    private static Shape shape(long first, long second, long[] spatial) {
        long[] dims = new long[spatial.length + 2];
        dims[0] = first;
        dims[1] = second;
        System.arraycopy(spatial, 0, dims, 2, spatial.length);
        return Shape.of(dims);
    }

    /** Element {@code i}, counted in rows, of operand {@code which}. */
    private static int value(long i, int which) {
        return (int) ((i * 0x9E3779B97F4A7C15L + which * 0x632BE59BD9B4E019L >>> 33) % 7) - 3;
    }

    private static double[] values(Shape shape, int which) {
        double[] values = new double[(int) shape.count()];
        Arrays.setAll(values, i -> value(i, which));
        return values;
    }

    private Tensor operand(Shape shape, int which, Layout as) {
        int count = (int) shape.count();
        long[] rows = shape.contiguousStrides();
        long[] strides = rows.clone();
        long offset = 0;
        int room = count;
        switch (as) {
            case ROWS -> { }
            case CHANNELS_LAST -> strides = ChannelsLast.strides(shape);
            case STEPPED -> {
                strides = Arrays.stream(rows).map(s -> 2 * s).toArray();
                offset = 3;
                room = 2 * count + 3;
            }
            case OFFSET -> {
                long[] dims = Arrays.stream(shape.dims()).map(d -> d + 1).toArray();
                strides = Shape.of(dims).contiguousStrides();
                offset = Arrays.stream(strides).sum();
                room = (int) Shape.of(dims).count();
            }
            case REVERSED -> {
                strides = Arrays.stream(rows).map(s -> -s).toArray();
                offset = count - 1;
            }
        }
        float[] memory = new float[room];
        Arrays.fill(memory, Float.NaN);
        long[] dims = shape.dims();
        for (int i = 0; i < count; i++) {
            long at = offset;
            for (int d = dims.length - 1, rest = i; d >= 0; rest /= (int) dims[d--]) {
                at += rest % dims[d] * strides[d];
            }
            memory[(int) at] = value(i, which);
        }
        Tensor line = Tensor.of(memory, room).to(type);
        return line.storage().view(line.spec().with(shape), strides, offset);
    }

    /** Returns all triples of position, tap and pixel that contribute to each other. */
    private static int[] meetings(Axis a) {
        int[] all = new int[3 * a.kernel * (int) a.places()];
        int n = 0;
        for (int o = 0; o < a.places(); o++) {
            for (int k = 0; k < a.kernel; k++) {
                int i = o * a.stride + k * a.dilation - a.padding;
                if (i >= 0 && i < a.size) {
                    all[n++] = o;
                    all[n++] = k;
                    all[n++] = i;
                }
            }
        }
        return Arrays.copyOf(all, n);
    }

    private double[] expected() {
        double[] x = values(xShape(), 1);
        double[] w = values(wShape(), 2);
        double[] y = values(yShape(), 3);
        double[] sums = pass == Pass.FORWARD ? y : pass == Pass.WEIGHT_GRADIENT ? w : x;
        Arrays.fill(sums, 0);
        if (bias && (pass == Pass.FORWARD || pass == Pass.TRANSPOSED)) {
            int channels = groups * (pass == Pass.FORWARD ? out : in);
            int plane = sums.length / batch / channels;
            Arrays.setAll(sums, i -> value(i / plane % channels, 4));
        }
        int[][] met = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        int[][] sizes = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
        for (int i = 0; i < axes.size(); i++) {
            Axis a = axes.get(i);
            met[i] = meetings(a);
            sizes[i] = new int[] {(int) a.places(), a.kernel, a.size};
        }
        for (int a = 0; a < met[0].length; a += 3) {
            for (int b = 0; b < met[1].length; b += 3) {
                for (int c = 0; c < met[2].length; c += 3) {
                    int[] at = new int[3];
                    int[] plane = new int[3];
                    for (int k = 0; k < 3; k++) {
                        at[k] = (met[0][a + k] * sizes[1][k] + met[1][b + k]) * sizes[2][k] + met[2][c + k];
                        plane[k] = sizes[0][k] * sizes[1][k] * sizes[2][k];
                    }
                    meet(x, w, y, at, plane);
                }
            }
        }
        if (relu && pass == Pass.FORWARD) {
            Arrays.setAll(sums, i -> Math.max(0, sums[i]));
        }
        return sums;
    }

    /** Adds the products of all channels for a position, a tap and a pixel. */
    private void meet(double[] x, double[] w, double[] y, int[] at, int[] plane) {
        for (int n = 0; n < batch; n++) {
            for (int o = 0; o < groups * out; o++) {
                int yi = (n * groups * out + o) * plane[0] + at[0];
                for (int c = 0; c < in; c++) {
                    int wi = (o * in + c) * plane[1] + at[1];
                    int xi = (n * groups * in + o / out * in + c) * plane[2] + at[2];
                    switch (pass) {
                        case FORWARD -> y[yi] += x[xi] * w[wi];
                        case WEIGHT_GRADIENT -> w[wi] += x[xi] * y[yi];
                        case INPUT_GRADIENT, TRANSPOSED -> x[xi] += w[wi] * y[yi];
                    }
                }
            }
        }
    }

    private double[] biasGradient() {
        double[] y = values(yShape(), 3);
        double[] sums = new double[groups * out];
        for (int i = 0; i < y.length; i++) {
            sums[i / (y.length / batch / sums.length) % sums.length] += y[i];
        }
        return sums;
    }

    private String difference(String name, Tensor actual, double[] expected) {
        if (actual.count() != expected.length) {
            return name + " is " + actual.spec();
        }
        double[] a = actual.toDoubles();
        double tolerance = type.bytes() > 2 ? 0 : type == DType.BF16 ? 0x1p-7 : 0x1p-10;
        for (int i = 0; i < a.length; i++) {
            if (!(Math.abs(a[i] - expected[i]) <= tolerance * Math.abs(expected[i]))) {
                return name + "[" + i + "] of " + a.length + " is " + a[i] + " instead of " + expected[i];
            }
        }
        return null;
    }

    /** Returns the Java code that makes this case. */
    @Override
    public String toString() {
        return "new ConvCase(Pass." + pass + ", DType." + type.name() + ", " + batch + ", " + groups + ", " + in
                + ", " + out + ", List.of(" + axes.stream().map(Axis::toString).collect(Collectors.joining(", "))
                + "), Layout." + layout + ", " + bias + ", " + relu + ", " + threads + ")";
    }
}
