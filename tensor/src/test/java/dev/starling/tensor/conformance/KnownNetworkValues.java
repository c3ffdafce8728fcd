package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.KnownValues.apply;
import static dev.starling.tensor.conformance.KnownValues.f64;
import static dev.starling.tensor.conformance.KnownValues.i64;
import static dev.starling.tensor.conformance.KnownValues.shape;
import static java.lang.Double.NaN;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Pooling.Window;
import dev.starling.tensor.op.Softmax;
import java.util.function.Supplier;

/** Results of neural operations, small enough to compute by hand. */
final class KnownNetworkValues {
    private KnownNetworkValues() {
    }

    static void add(KnownValues known) {
        lines(known);
        planes(known);
        pooling(known);
        normalization(known);
        softmax(known);
        crossEntropy(known);
    }

    private static Op conv(Geometry geometry) {
        return new Convolution.Conv(geometry, Epilogue.NONE);
    }

    private static void lines(KnownValues known) {
        Supplier<Tensor> x = () -> f64(shape(1, 1, 5), 1, 2, 3, 4, 5);
        Supplier<Tensor> w = () -> f64(shape(1, 1, 3), 1, 0, -1);
        known.known("conv1d", () -> apply(conv(Geometry.of(1, 1, 0, 1, 1)), x.get(), w.get()), -2, -2, -2);
        known.known("conv1d strided and padded", () -> apply(conv(Geometry.of(1, 2, 1, 1, 1)), x.get(), w.get()), -2,
                -2, 4);
        known.known("conv1d dilated", () -> apply(conv(Geometry.of(1, 1, 0, 2, 1)), x.get(), w.get()), -4);
        known.known("conv1d in groups", () -> apply(conv(Geometry.of(1, 1, 0, 1, 2)),
                f64(shape(1, 2, 3), 1, 2, 3, 4, 5, 6), f64(shape(2, 1, 2), 1, 1, 1, -1)), 3, 5, -1, -1);
        known.known("conv1d of two channels", () -> apply(conv(Geometry.of(1, 1, 0, 1, 1)),
                f64(shape(1, 2, 2), 1, 2, 3, 4), f64(shape(2, 2, 1), 1, 10, -1, 0), f64(100, 200)), 131, 142, 199,
                198);
        known.known("conv1d with relu", () -> apply(new Convolution.Conv(Geometry.of(1, 2, 1, 1, 1), Epilogue.RELU),
                x.get(), w.get()), 0, 0, 4);
    }

    private static void planes(KnownValues known) {
        Supplier<Tensor> x = () -> f64(shape(1, 1, 3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9);
        Supplier<Tensor> w = () -> f64(shape(1, 1, 2, 2), 1, 2, 3, 4);
        Supplier<Tensor> ones = () -> f64(shape(1, 1, 2, 2), 1, 1, 1, 1);
        Geometry plain = Geometry.of(2, 1, 0, 1, 1);
        known.known("conv2d", () -> apply(conv(plain), x.get(), w.get()), 37, 47, 67, 77);
        known.known("gradient of conv2d's input", () -> apply(
                new Convolution.ConvInputGradient(plain, Shape.of(1, 1, 3, 3)), ones.get(), w.get()), 1, 3, 2, 4, 10,
                6, 3, 7, 4);
        known.known("transposed conv2d of stride 2", () -> apply(new Convolution.ConvInputGradient(
                Geometry.of(2, 2, 0, 1, 1), Shape.of(1, 1, 2, 4)), f64(shape(1, 1, 1, 2), 1, 10), w.get()), 1, 2, 10,
                20, 3, 4, 30, 40);
        known.known("gradient of conv2d's weight", () -> apply(new Convolution.ConvWeightGradient(plain,
                Shape.of(1, 1, 2, 2), false), x.get(), ones.get()), 12, 16, 24, 28);
        known.known("gradient of conv2d's bias", () -> Tensor.apply(new Convolution.ConvWeightGradient(plain,
                Shape.of(1, 1, 2, 2), true), x.get(), w.get())[1], 10);
        known.known("conv3d", () -> apply(conv(Geometry.of(3, 1, 0, 1, 1)),
                f64(shape(1, 1, 2, 1, 2), 1, 2, 3, 4), f64(shape(1, 1, 2, 1, 1), 1, 10)), 31, 42);
    }

    private static void pooling(KnownValues known) {
        Supplier<Tensor> x = () -> f64(shape(1, 1, 3, 3), 1, 2, 9, 4, 5, 6, 7, 8, 3);
        Window two = Window.of(2, 2, 1, 0);
        known.known("maxPool", () -> apply(new Pooling.MaxPool(two), x.get()), 5, 9, 8, 8);
        known.known("places of maxPool", () -> Tensor.apply(new Pooling.MaxPool(two), x.get())[1], 4, 2, 7, 7);
        known.known("maxPool of NaN", () -> apply(new Pooling.MaxPool(Window.of(1, 2, 1, 0)),
                f64(shape(1, 1, 4), 1, NaN, 3, 2)), NaN, NaN, 3);
        known.known("maxPool of negatives in padding", () -> apply(new Pooling.MaxPool(Window.of(1, 3, 2, 1)),
                f64(shape(1, 1, 3), -5, -7, -6)), -5, -6);
        known.known("gradient of maxPool", () -> apply(new Pooling.MaxPoolGradient(two, Shape.of(1, 1, 3, 3)),
                f64(shape(1, 1, 2, 2), 1, 2, 3, 4), Tensor.of(new int[] {4, 2, 7, 7}, 1, 1, 2, 2)), 0, 0, 2, 0, 1, 0,
                0, 7, 0);
        Window padded = Window.of(2, 2, 2, 1);
        Supplier<Tensor> small = () -> f64(shape(1, 1, 2, 2), 1, 2, 3, 4);
        known.known("avgPool", () -> apply(new Pooling.AvgPool(two, true), x.get()), 3, 5.5, 6, 5.5);
        known.known("avgPool counting padding", () -> apply(new Pooling.AvgPool(padded, true), small.get()), 0.25, 0.5,
                0.75, 1);
        known.known("avgPool not counting padding", () -> apply(new Pooling.AvgPool(padded, false), small.get()), 1, 2,
                3, 4);
        Window ceil = new Window(new int[] {2}, new int[] {2}, new int[] {0}, new int[] {1}, true);
        known.known("avgPool over the edge", () -> apply(new Pooling.AvgPool(ceil, true),
                f64(shape(1, 1, 5), 1, 2, 3, 4, 5)), 1.5, 3.5, 5);
        Window over = new Window(new int[] {3}, new int[] {2}, new int[] {1}, new int[] {1}, true);
        known.known("avgPool over the edge of the padding", () -> apply(new Pooling.AvgPool(over, true),
                f64(shape(1, 1, 6), 1, 2, 3, 4, 5, 6)), 1, 3, 5, 3);
        known.known("gradient of avgPool", () -> apply(new Pooling.AvgPoolGradient(two, true, Shape.of(1, 1, 3, 3)),
                f64(shape(1, 1, 2, 2), 4, 8, 12, 16)), 1, 3, 2, 4, 10, 6, 3, 7, 4);
    }

    private static void normalization(KnownValues known) {
        Supplier<Tensor[]> batch = () -> Tensor.apply(new Normalization.BatchNorm(0, Epilogue.NONE),
                f64(shape(2, 1, 2), 1, 2, 3, 4), f64(2), f64(10));
        double s = 1 / Math.sqrt(1.25);
        known.known("batchNorm", () -> batch.get()[0], 10 - 3 * s, 10 - s, 10 + s, 10 + 3 * s);
        known.known("batchNorm's mean", () -> batch.get()[1], 2.5);
        known.known("batchNorm's deviation", () -> batch.get()[2], s);
        known.known("batchNorm with epsilon and relu", () -> apply(new Normalization.BatchNorm(0.25, Epilogue.RELU),
                f64(shape(2, 1), 1, 3), f64(1), f64(0)), 0, 1 / Math.sqrt(1.25));
        double t = 1 / Math.sqrt(2.0 / 3);
        known.known("layerNorm", () -> apply(new Normalization.LayerNorm(0), f64(shape(2, 3), 1, 2, 3, 30, 20, 10),
                f64(1, 1, 2), f64(5, 6, 7)), 5 - t, 6, 7 + 2 * t, 5 + t, 6, 7 - 2 * t);
        // With two elements a group y = ±1/√2·√2 does not change with x, so that the gradient vanishes.
        known.known("gradient of layerNorm over two", () -> apply(new Normalization.LayerNormGradient(),
                f64(shape(1, 2), 3, 8), f64(shape(1, 2), 1, 3), f64(1, 1), f64(2), f64(1)), 0, 0);
        known.known("gradient of batchNorm's gamma", () -> Tensor.apply(
                new Normalization.BatchNormGradient(Epilogue.RELU), f64(shape(2, 1), 3, 8), f64(shape(2, 1), 1, 3),
                f64(1), f64(shape(2, 1), 0, 1), f64(2), f64(1))[1], 8);
    }

    private static void softmax(KnownValues known) {
        Supplier<Tensor> x = () -> f64(1, 2, 3);
        double a = 0.09003057317038046;
        double b = 0.24472847105479764;
        double c = 0.6652409557748218;
        known.known("softmax", () -> apply(new Softmax.Exponentials(0), x.get()), a, b, c);
        known.known("softmax of large numbers", () -> apply(new Softmax.Exponentials(0), f64(1001, 1002, 1003)), a, b,
                c);
        known.known("softmax of columns", () -> apply(new Softmax.Exponentials(0), f64(shape(2, 2), 7, 0, 7,
                Double.NEGATIVE_INFINITY)), 0.5, 1, 0.5, 0);
        known.known("logSoftmax", () -> apply(new Softmax.Logarithms(0), x.get()), -2.4076059644443806,
                -1.4076059644443806, -0.4076059644443806);
        known.known("gradient of softmax", () -> apply(new Softmax.ExponentialsGradient(0), f64(0.25, 0.75),
                f64(4, 0)), 0.75, -0.75);
        known.known("gradient of logSoftmax", () -> apply(new Softmax.LogarithmsGradient(0), f64(Math.log(0.25),
                Math.log(0.75)), f64(4, 0)), 3, -3);
    }

    private static void crossEntropy(KnownValues known) {
        Supplier<Tensor> x = () -> f64(shape(2, 3), 1, 2, 3, 1, 2, 3);
        known.known("crossEntropy", () -> apply(new CrossEntropy.Loss(0, -1), x.get(), i64(2, -1)),
                0.4076059644443806, 0);
        known.known("crossEntropy with smoothing", () -> apply(new CrossEntropy.Loss(0.1, -1), x.get(), i64(2, 0)),
                0.5076059644443806, 2.3076059644443806);
        known.known("what crossEntropy keeps of a row", () -> Tensor.apply(new CrossEntropy.Loss(0.1, -1), x.get(),
                i64(2, -1))[1].narrow(0, 1, 1), 3, 0.4076059644443806);
        known.known("gradient of crossEntropy", () -> apply(new CrossEntropy.Gradient(0, -1), f64(4, 1),
                f64(shape(2, 2), 5 + Math.log(0.25), 5 + Math.log(0.75), 0, 0),
                f64(shape(2, 2), 4, 1, 0, 0), i64(1, -1)), 1, -1, 0, 0);
    }
}
