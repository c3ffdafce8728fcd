package dev.starling.tensor.reference;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution;
import java.util.Arrays;

/**
 * A convolution is a set of triples (element of x, element of the weight, element of y). Each of the three operations
 * sums over that set the products of two elements into the third.
 */
final class ReferenceConvolution {
    private ReferenceConvolution() {
    }

    /**
     * Receives, for each input channel, a triple of element numbers: those of {@code x} lie {@code plane} apart, those
     * of the weight {@code kernel} apart.
     */
    private interface Triples {
        void accept(int x, int plane, int weight, int kernel, int channels, int y);
    }

    static void run(Convolution op, Tensor[] in, Tensor[] out) {
        double[] sums = new double[Math.toIntExact(out[0].count())];
        double[] a = Elements.of(in[0]).getAll();
        double[] b = Elements.of(in[1]).getAll();
        switch (op) {
            case Convolution.Conv o -> {
                each(o.geometry(), in[0].shape(), in[1].shape(), out[0].shape(),
                        (x, plane, weight, kernel, channels, y) -> {
                            for (int c = 0; c < channels; c++) {
                                sums[y] += a[x + c * plane] * b[weight + c * kernel];
                            }
                        });
                finish(o, in, sums, out[0]);
            }
            case Convolution.ConvInputGradient o -> each(o.geometry(), o.shape(), in[1].shape(), in[0].shape(),
                    (x, plane, weight, kernel, channels, y) -> {
                        for (int c = 0; c < channels; c++) {
                            sums[x + c * plane] += a[y] * b[weight + c * kernel];
                        }
                    });
            case Convolution.ConvWeightGradient o -> {
                each(o.geometry(), in[0].shape(), o.shape(), in[1].shape(),
                        (x, plane, weight, kernel, channels, y) -> {
                            for (int c = 0; c < channels; c++) {
                                sums[weight + c * kernel] += a[x + c * plane] * b[y];
                            }
                        });
                if (o.bias()) {
                    biasGradient(in[1], out[1]);
                }
            }
        }
        Elements.of(out[0]).setAll(sums);
    }

    /** Adds the bias and applies the epilogue. */
    private static void finish(Convolution.Conv op, Tensor[] in, double[] sums, Tensor out) {
        Elements bias = in.length == 3 ? Elements.of(in[2]) : null;
        long plane = out.shape().slice(2, out.rank()).count();
        for (int i = 0; i < sums.length; i++) {
            double b = bias == null ? 0 : bias.get(i / plane % out.size(1));
            sums[i] = ReferenceKernels.apply(op.epilogue(), sums[i] + b);
        }
    }

    private static void biasGradient(Tensor g, Tensor out) {
        Elements from = Elements.of(g);
        double[] sums = new double[Math.toIntExact(out.count())];
        long plane = g.shape().slice(2, g.rank()).count();
        for (long i = 0; i < g.count(); i++) {
            sums[(int) (i / plane % sums.length)] += from.get(i);
        }
        Elements.of(out).setAll(sums);
    }

    private static void each(Convolution.Geometry geometry, Shape x, Shape weight, Shape y, Triples triples) {
        int channels = (int) weight.dim(1);
        long perGroup = y.dim(1) / geometry.groups();
        Shape kernel = weight.slice(2, weight.rank());
        Shape input = x.slice(2, x.rank());
        Shape output = y.slice(2, y.rank());
        if (y.count() == 0 || channels == 0) {
            return; // Planes of tensors without elements may have any size.
        }
        long[][] taps = places(kernel);
        long[][] places = places(output);
        for (long i = 0; i < y.count(); i++) {
            long o = i / places.length % y.dim(1);
            long image = i / places.length / y.dim(1);
            for (int k = 0; k < taps.length; k++) {
                long at = inputPlace(geometry, input, places[(int) (i % places.length)], taps[k]);
                if (at >= 0) {
                    long channel = image * x.dim(1) + o / perGroup * channels;
                    triples.accept((int) (channel * input.count() + at), (int) input.count(),
                            (int) (o * channels * taps.length + k), taps.length, channels, (int) i);
                }
            }
        }
    }

    private static long[][] places(Shape plane) {
        long[][] places = new long[(int) plane.count()][];
        Arrays.setAll(places, i -> ReferenceSelection.coordinates(i, plane));
        return places;
    }

    /** Returns the element of x's plane that a kernel element reads at an output position, or -1 in the padding. */
    private static long inputPlace(Convolution.Geometry g, Shape input, long[] place, long[] kernel) {
        long at = 0;
        for (int d = 0; d < place.length; d++) {
            long i = place[d] * g.stride()[d] - g.padding()[d] + kernel[d] * g.dilation()[d];
            if (i < 0 || i >= input.dim(d)) {
                return -1;
            }
            at = at * input.dim(d) + i;
        }
        return at;
    }
}
