package dev.starling.tensor.conformance;

import static java.lang.Double.NaN;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Sorting;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** Results known from tables, by hand, or from IEEE 754, which test the reference device itself. */
final class KnownValues {
    private static final double INF = Double.POSITIVE_INFINITY;

    private final List<DynamicTest> tests = new ArrayList<>();
    private final Device device;

    KnownValues(Device device) {
        this.device = device;
    }

    static Stream<DynamicTest> on(Device device) {
        KnownValues known = new KnownValues(device);
        known.functions();
        known.rounding();
        known.integers();
        known.binary();
        known.casts();
        known.reductions();
        known.ordering();
        known.movement();
        known.selection();
        known.contraction();
        known.updates();
        known.random();
        KnownNetworkValues.add(known);
        return known.tests.stream();
    }

    /** Adds a test that the elements of a result, in row-major order, equal these. */
    void known(String name, Supplier<Tensor> result, double... expected) {
        tests.add(DynamicTest.dynamicTest("known " + name, () -> {
            try (Scope scope = Scope.open()) {
                Tensor tensor = Device.with(device, result);
                double[] actual = tensor.toDoubles();
                assertEquals(expected.length, actual.length, () -> "shape " + tensor.shape());
                for (int i = 0; i < actual.length; i++) {
                    double tolerance = tensor.dtype() == DType.F64 ? 1e-13 : 1e-5;
                    assertEquals(expected[i], actual[i], Math.abs(expected[i]) < Double.MAX_VALUE
                            ? tolerance * Math.abs(expected[i]) + Double.MIN_VALUE : 0, "element " + i);
                }
            }
        }));
    }

    static Tensor f64(double... elements) {
        return Tensor.of(elements);
    }

    static Tensor f64(long[] shape, double... elements) {
        return Tensor.of(elements).reshape(shape);
    }

    static Tensor i64(long... elements) {
        return Tensor.of(elements);
    }

    static long[] shape(long... dims) {
        return dims;
    }

    private void functions() {
        known("erf", () -> f64(0, 0.5, 1, -2, 7).erf(), 0, 0.5204998778130465, 0.8427007929497149,
                -0.9953222650189527, 1);
        known("exp", () -> f64(0, 1, -1, -INF, INF).exp(), 1, Math.E, 0.36787944117144233, 0, INF);
        known("log", () -> f64(1, 10, 0, -1, INF).log(), 0, 2.302585092994046, -INF, NaN, INF);
        known("expm1 near 0", () -> f64(1e-10, 1e-300).expm1(), 1.00000000005e-10, 1e-300);
        known("log1p near 0", () -> f64(1e-10, -1).log1p(), 9.9999999995e-11, -INF);
        known("roots", () -> f64(4, 0.25).sqrt().add(f64(4, 0.25).rsqrt()), 2.5, 2.5);
        known("root of a negative", () -> f64(-1).sqrt(), NaN);
        known("sin cos tan", () -> f64(Math.PI / 6, Math.PI / 3, Math.PI / 4).sin(), 0.5, Math.sqrt(3) / 2,
                Math.sqrt(0.5));
        known("cos", () -> f64(0, Math.PI / 3, Math.PI).cos(), 1, 0.5, -1);
        known("tan", () -> f64(0, Math.PI / 4).tan(), 0, 1);
        known("asin", () -> f64(1, -0.5, 2).asin(), Math.PI / 2, -Math.PI / 6, NaN);
        known("acos", () -> f64(1, 0.5).acos(), 0, Math.PI / 3);
        known("atan", () -> f64(1, -INF).atan(), Math.PI / 4, -Math.PI / 2);
        known("sinh", () -> f64(1).sinh(), 1.1752011936438014);
        known("cosh", () -> f64(1).cosh(), 1.543080634815244);
        known("tanh", () -> f64(1, -INF).tanh(), 0.7615941559557649, -1);
        known("asinh", () -> f64(1, -1, 1e-12, 1e300, -INF).asinh(), 0.881373587019543, -0.881373587019543, 1e-12,
                691.4686750787736, -INF);
        known("acosh", () -> f64(1, 2, 0.5, 1e300).acosh(), 0, 1.3169578969248166, NaN, 691.4686750787736);
        known("atanh", () -> f64(0.5, -1, 1e-12).atanh(), 0.5493061443340549, -INF, 1e-12);
        known("sigmoid", () -> f64(0, 1, -1000).sigmoid(), 0.5, 0.7310585786300049, 0);
        known("silu", () -> f64(1).silu(), 0.7310585786300049);
        known("softplus", () -> apply(Activation.SOFTPLUS, f64(0, 1, 1000)), 0.6931471805599453,
                1.3132616875182228, 1000);
        known("gelu", () -> apply(Activation.GELU, f64(1, -1)), 0.8413447460685429, -0.15865525393145707);
        known("gelu by tanh", () -> apply(Activation.GELU_TANH, f64(1, -1)), 0.8411919906082768,
                -0.15880800939172324);
        known("relu", () -> f64(-2, 3, NaN).relu(), 0, 3, NaN);
        known("leakyRelu", () -> apply(new Activation.LeakyRelu(0.1), f64(-2, 3)), -0.2, 3);
        known("elu", () -> apply(new Activation.Elu(1.5), f64(-1, 3)), -0.9481808382428365, 3);
        known("softsign", () -> apply(Activation.SOFTSIGN, f64(0, 1, -3, 1e300, NaN, INF)), 0, 0.5, -0.75, 1, NaN,
                NaN);
        known("affine", () -> apply(new Unary.Affine(2, 3), f64(1, -2)), 5, -1);
        known("clamp", () -> f64(-2, 0.5, 7, NaN).clamp(-1, 1), -1, 0.5, 1, NaN);
        known("sign", () -> f64(-2, 0, 7, NaN).sign(), -1, 0, 1, NaN);
        known("reciprocal of zeros", () -> f64(0, -0.0).reciprocal(), INF, -INF);
        known("signs of products of zero", () -> f64(0, -0.0, -1).mul(2).mul(0).reciprocal(), INF, -INF, -INF);
        known("predicates", () -> f64(NaN, INF, 1).isNan().to(DType.I64)
                .add(f64(NaN, INF, 1).isInf().to(DType.I64).mul(2)).add(f64(NaN, INF, 1).isFinite().to(DType.I64)
                .mul(4)), 1, 2, 4);
    }

    private void rounding() {
        double[] x = {0.5, 1.5, 2.5, -0.5, -1.5, 1.4, -1.6};
        known("round", () -> f64(x).round(), 0, 2, 2, -0.0, -2, 1, -2);
        known("floor", () -> f64(x).floor(), 0, 1, 2, -1, -2, 1, -2);
        known("ceil", () -> f64(x).ceil(), 1, 2, 3, -0.0, -1, 2, -1);
        known("trunc", () -> f64(x).trunc(), 0, 1, 2, -0.0, -1, 1, -1);
    }

    private void integers() {
        known("u8 wraps", () -> u8(200, 255).add(u8(100, 1)), 44, 0);
        known("i8 wraps", () -> i64(100, -128).to(DType.I8).add(i64(100, -1).to(DType.I8)), -56, 127);
        known("i32 wraps", () -> Tensor.of(new int[] {Integer.MAX_VALUE}).add(Tensor.of(new int[] {1})),
                Integer.MIN_VALUE);
        known("i64 is exact", () -> i64((1L << 53) + 1).sub(i64(1L << 53)), 1);
        known("i64 sums exactly", () -> i64(1L << 53, 1, 1, -(1L << 53)).sum(), 2);
        known("integer remainder", () -> i64(5, -5, 5, -5, 5).remainder(i64(3, 3, -3, -3, 0)), 2, 1, -1, -2, 0);
        known("integer quotient", () -> i64(5, -5, 5, -5, 5).floorDivide(i64(3, 3, -3, -3, 0)), 1, -2, -2, 1, 0);
        known("negated u8", () -> u8(1, 0).neg(), 255, 0);
        known("clamped integers", () -> i64(-9, 0, 9).clamp(-1, 2), -1, 0, 2);
        known("bits", () -> apply(Logic.XOR, i64(6), i64(3)), 5);
        known("not", () -> apply(Logic.NOT, u8(0, 254)), 255, 1);
        known("logic", () -> bool(true, false).and(bool(true, true)), 1, 0);
        known("comparisons", () -> u8(200).gt(u8(100)), 1);
        known("large comparisons", () -> i64((1L << 53) + 1).gt(i64(1L << 53)), 1);
    }

    private void binary() {
        known("remainder", () -> f64(5, -5, 5, -5, 5.5, -5, 1, INF).remainder(f64(3, 3, -3, -3, 2, INF, 0, 1)), 2, 1,
                -1, -2, 1.5, INF, NaN, NaN);
        known("floorDivide", () -> f64(5, -5, 5, -5, 1, -5, 1).floorDivide(f64(3, 3, -3, -3, 0.1, INF, 0)), 1, -2, -2,
                1, 9, -1, INF);
        known("pow", () -> f64(2, -8, -2, 1, 0, -1, 2).pow(f64(10, 3, 0.5, NaN, 0, INF, -1)), 1024, -512, NaN, 1, 1,
                1, 0.5);
        known("maximum", () -> f64(1, NaN, 3).maximum(f64(2, 1, NaN)), 2, NaN, NaN);
        known("minimum", () -> f64(1, NaN, 3).minimum(f64(2, 1, NaN)), 1, NaN, NaN);
        known("atan2", () -> f64(1, 0, -1).atan2(f64(-1, -1, 0)), 3 * Math.PI / 4, Math.PI, -Math.PI / 2);
        known("broadcast", () -> f64(shape(2, 1), 10, 20).add(f64(1, 2, 3)), 11, 12, 13, 21, 22, 23);
        known("division", () -> f64(1, -1, 0).div(f64(0, 0, 0)), INF, -INF, NaN);
        known("equality of NaN", () -> apply(dev.starling.tensor.op.Comparison.NOT_EQUAL, f64(NaN), f64(NaN)), 1);
        known("where", () -> apply(new dev.starling.tensor.op.Where(), bool(true, false), f64(1, 2), f64(7)), 1, 7);
        known("square", () -> apply(Binary.MUL, f64(-3), f64(-3)), 9);
    }

    private void casts() {
        known("to integers", () -> f64(-2.7, 2.7, 0.99).to(DType.I32), -2, 2, 0);
        known("to u8", () -> i64(300, -1, 256).to(DType.U8), 44, 255, 0);
        known("to bool", () -> f64(0, -0.0, 0.1, NaN).to(DType.BOOL), 0, 0, 1, 1);
        known("to bf16", () -> f64(1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-8 + 0x1p-40, NaN, 3.4e38).to(DType.BF16)
                .to(DType.F64), 1, 1 + 0x1p-6, 1 + 0x1p-7, NaN, INF);
        known("to f16", () -> f64(65519, 65520, 0x1p-25, 0x1.8p-25, 1 + 0x1p-11 + 0x1p-40).to(DType.F16)
                .to(DType.F64), 65504, INF, 0, 0x1p-24, 1 + 0x1p-10);
        known("i64 to f32", () -> i64((1L << 24) + 1, (1L << 60) + (1L << 36) + 1).to(DType.F32).to(DType.F64),
                1L << 24, (1L << 60) + (1L << 37));
        known("f64 to f32", () -> f64(0.1, 1e300).to(DType.F32).to(DType.F64), 0.10000000149011612, INF);
    }

    private void reductions() {
        Supplier<Tensor> x = () -> f64(shape(2, 3), 1, 2, 3, 4, 5, 6);
        known("sum of rows", () -> x.get().sum(1), 6, 15);
        known("sum of columns", () -> x.get().sum(0), 5, 7, 9);
        known("mean", () -> x.get().mean(), 3.5);
        known("mean of nothing", () -> f64(shape(0, 2)).mean(0), NaN, NaN);
        known("sum of nothing", () -> f64(shape(0, 2)).sum(0), 0, 0);
        known("prod", () -> x.get().prod(1), 6, 120);
        known("max", () -> f64(shape(2, 3), 1, 7, 3, NaN, 5, 6).max(1), 7, NaN);
        known("min", () -> f64(shape(2, 2), 4, -7, INF, 5).min(1), -7, 5);
        known("argmax", () -> f64(shape(3, 3), 1, 7, 7, 2, NaN, NaN, 5, 6, 1).argmax(1), 1, 1, 1);
        known("argmin over all", () -> f64(shape(2, 2), 4, -7, 3, -7).argmin(), 1);
        known("any", () -> f64(shape(2, 2), 0, NaN, 0, -0.0).any(1), 1, 0);
        known("all", () -> f64(shape(2, 2), 1, 2, 0, 3).all(1), 1, 0);
        known("sum of booleans", () -> bool(true, true, false).sum(), 2);
        known("sum of bf16", () -> Tensor.full(DType.BF16, 1, 300).sum().to(DType.F64), 300);
        known("kept dimensions", () -> apply(new Reduction.Sum(new Axes(0b101), true), f64(shape(2, 2, 2), 1, 2, 3, 4,
                5, 6, 7, 8)), 14, 22);
    }

    private void ordering() {
        known("cumsum", () -> apply(new Scan.CumSum(1, false), f64(shape(2, 3), 1, 2, 3, 4, 5, 6)), 1, 3, 6, 4, 9, 15);
        known("cumsum from the end", () -> apply(new Scan.CumSum(0, true), f64(1, 2, 3)), 6, 5, 3);
        double[] x = {2, NaN, 1, 2, -INF};
        known("sort", () -> Tensor.apply(new Sorting.Sort(0, false), f64(x))[0], -INF, 1, 2, 2, NaN);
        known("sorted places", () -> Tensor.apply(new Sorting.Sort(0, false), f64(x))[1], 4, 2, 0, 3, 1);
        known("descending places", () -> Tensor.apply(new Sorting.Sort(0, true), f64(x))[1], 1, 0, 3, 2, 4);
        known("topk", () -> Tensor.apply(new Sorting.TopK(2, 0, false), f64(x))[0], -INF, 1);
        known("topk along rows", () -> Tensor.apply(new Sorting.TopK(1, 1, true), f64(shape(2, 2), 1, 2, 4, 3))[1], 1,
                0);
    }

    private void movement() {
        known("transposed copy", () -> apply(new Movement.Copy(), f64(shape(2, 2), 1, 2, 3, 4).t()), 1, 3, 2, 4);
        known("concat", () -> apply(new Movement.Concat(1), f64(shape(2, 1), 1, 2), f64(shape(2, 2), 3, 4, 5, 6)), 1,
                3, 4, 2, 5, 6);
        known("place", () -> apply(new Movement.Place(Shape.of(6), new long[] {4}, new long[] {-2}, 9), f64(1, 2, 3)),
                3, 9, 2, 9, 1, 9);
        known("slice backwards", () -> f64(1, 2, 3, 4).flip(0), 4, 3, 2, 1);
        known("range", () -> Tensor.arange(new Spec(DType.F64, Shape.of(4), Device.current()), 1, -0.5), 1, 0.5, 0,
                -0.5);
        known("full", () -> Tensor.full(DType.U8, 7, 2), 7, 7);
    }

    private void selection() {
        Supplier<Tensor> x = () -> f64(shape(2, 3), 1, 2, 3, 4, 5, 6);
        known("take", () -> x.get().take(1, i64(2, -3, 2)), 3, 1, 3, 6, 4, 6);
        known("gradient of take", () -> apply(new Selection.TakeGradient(0, 3), f64(shape(3, 1), 1, 2, 4),
                i64(2, 0, -1)), 2, 0, 5);
        known("gather", () -> x.get().gather(0, Tensor.of(new long[] {1, 0, -1}, 1, 3)), 4, 2, 6);
        known("scatterAdd", () -> f64(1, 1, 1).scatterAdd(0, i64(2, 0, 2), f64(10, 20, 30)), 21, 1, 41);
        known("scatter", () -> f64(1, 1, 1).scatter(0, i64(2, 0, 2), f64(10, 20, 30)), 20, 1, 30);
        known("nonzero", () -> apply(new Selection.Nonzero(3), f64(shape(2, 2), 1, 0, NaN, -1)), 0, 0, 1, 0, 1, 1);
        known("one-hot", () -> i64(1, 0).oneHot(3), 0, 1, 0, 1, 0, 0);
    }

    private void contraction() {
        Supplier<Tensor> a = () -> f64(shape(2, 2), 1, 2, 3, 4);
        known("matmul", () -> a.get().matmul(f64(shape(2, 2), 5, 6, 7, 8)), 19, 22, 43, 50);
        known("transposed matmul", () -> a.get().t().matmul(a.get()), 10, 14, 14, 20);
        known("batched matmul", () -> f64(shape(2, 1, 2), 1, 2, 3, 4).matmul(a.get()), 7, 10, 15, 22);
        known("empty matmul", () -> f64(shape(1, 0)).matmul(f64(shape(0, 2))), 0, 0);
        known("integer matmul", () -> Tensor.of(new long[] {1L << 53, 1}, 1, 2).matmul(Tensor.of(new long[] {1, 1}, 2,
                1)).sub(i64(1L << 53)), 1);
        known("linear", () -> apply(new Contraction.Linear(Epilogue.NONE), f64(1, 2), f64(shape(2, 2), 1, 2, 3, -4),
                f64(10, 1)), 15, -4);
        known("linear with relu", () -> apply(new Contraction.Linear(Epilogue.RELU), f64(1, 2),
                f64(shape(2, 2), 1, 2, 3, -4), f64(10, 1)), 15, 0);
        Supplier<Tensor[]> gelu = () -> Tensor.apply(new Contraction.Linear(Epilogue.GELU, true), f64(1, 2),
                f64(shape(2, 2), 3, -2, 1, -3), f64(2, 4));
        known("linear with gelu", () -> gelu.get()[0], 0.8411919906082768,
                -0.15880800939172324);
        known("operand of linear's gelu", () -> gelu.get()[1], 1, -1);
        known("gradient of linear's input before relu", () -> apply(new Contraction.LinearInputGradient(Epilogue.RELU),
                f64(shape(1, 2), 1, 2), f64(shape(2, 2), 3, 4, 5, 6), f64(shape(1, 2), 1, -1)), 13, 0);
        known("gradient of linear's input before gelu", () -> apply(new Contraction.LinearInputGradient(Epilogue.GELU),
                f64(shape(1, 2), 1, 2), f64(shape(2, 2), 3, 4, 5, 6), f64(shape(1, 2), 0, 0)), 6.5, 8);
        Supplier<Tensor[]> weight = () -> Tensor.apply(new Contraction.LinearWeightGradient(),
                f64(shape(2, 2), 1, 2, 3, 4), f64(shape(2, 1), 5, 6));
        known("gradient of linear's weight", () -> weight.get()[0], 23, 34);
        known("gradient of linear's bias", () -> weight.get()[1], 4, 6);
    }

    private void updates() {
        known("assign to itself, shifted", () -> {
            Tensor x = f64(1, 2, 3, 4);
            Tensor.apply(new Update.Assign(), x.narrow(0, 1, 3), x.narrow(0, 0, 3));
            return x;
        }, 1, 1, 2, 3);
        known("blend", () -> updated(new Update.Blend(0.9, 0.1), 0, f64(1), f64(2)), 1.1);
        Update running = new Update.RunningStatistics(0.1, 0.5, 1.25);
        known("running mean", () -> updated(running, 0, f64(1, 1), f64(2, 2), f64(3, 3), f64(0.5, 0)), 1.1, 1);
        known("running variance", () -> updated(running, 2, f64(1, 1), f64(2, 2), f64(3, 3), f64(0.5, 0)), 3.1375, 3);
        known("sgd", () -> updated(new Rule.Sgd(0, 0, 0.5, false).step(0.1, 1), 0, f64(1), f64(2)), 0.75);
        known("momentum", () -> updated(new Rule.Sgd(0.9, 0, 0, false).step(0.1, 1), 0, f64(1), f64(2), f64(3)), 0.53);
        known("velocity", () -> updated(new Rule.Sgd(0.9, 0.5, 0, false).step(0.1, 1), 2, f64(1), f64(2), f64(3)), 3.7);
        known("nesterov", () -> updated(new Rule.Sgd(0.9, 0, 0, true).step(0.1, 1), 0, f64(1), f64(2), f64(3)), 0.377);
        known("adam's first step", () -> updated(new Rule.Adam(0.9, 0.999, 0, 0, false).step(0.1, 1), 0, f64(1, 1),
                f64(2, -5), f64(0, 0), f64(0, 0)), 0.9, 1.1);
        known("adagrad", () -> updated(new Rule.Adagrad(1, 0, 0).step(0.5, 1), 0, f64(1), f64(3), f64(16)), 0.75);
        known("adagrad's sum", () -> updated(new Rule.Adagrad(1, 0.5, 0).step(0.5, 1), 2, f64(2), f64(3), f64(1)), 17);
        known("rmsprop", () -> updated(new Rule.Rmsprop(0.75, 2, 0, 0, false).step(0.5, 1), 0, f64(1), f64(2), f64(4)),
                0.75);
        known("centred rmsprop", () -> updated(new Rule.Rmsprop(0.5, 1, 0, 0.5, true).step(0.5, 1), 0, f64(1), f64(2),
                f64(6), f64(2), f64(1)), 0.25);
        known("centred rmsprop whose squares are infinite", () -> updated(new Rule.Rmsprop(0.5, 1, 0, 0.5, true)
                .step(0.5, 1), 0, f64(1, 2), f64(1e200, -1e200), f64(0, INF), f64(0, 1e300), f64(0, 0)), 1, 2);
        known("lion", () -> updated(new Rule.Lion(0.5, 0.75, 0.5).step(0.1, 1), 0, f64(2), f64(-3), f64(1)), 2);
        known("lion's mean", () -> updated(new Rule.Lion(0.5, 0.75, 0).step(0.1, 1), 2, f64(2), f64(3), f64(1)), 1.5);
        known("adamw's first step", () -> updated(new Rule.Adam(0.9, 0.999, 0, 0.5, true).step(0.1, 1), 0, f64(1),
                f64(2), f64(0), f64(0)), 0.85);
    }

    private void random() {
        known("uniform stays below its bound", () -> {
            Tensor x = Tensor.compute(new Random.Uniform(new Spec(DType.F32, Shape.of(100_000), Device.current()), 1,
                    1 + 0x1p-20, 7, 0));
            return x.ge(1).and(x.lt(1 + 0x1p-20)).all();
        }, 1);
        known("integers lie in their range", () -> {
            Tensor x = Tensor.compute(new Random.Integers(new Spec(DType.I64, Shape.of(10_000), Device.current()), -2,
                    1, 7, 0));
            return Tensor.compute(new Movement.Concat(0), x.min().reshape(1), x.max().reshape(1));
        }, -2, 0);
        known("dropout keeps and scales", () -> {
            Tensor y = Tensor.compute(new Random.Dropout(0.5, 3, 0), Tensor.full(DType.F32, 1, 1000));
            return y.eq(0).or(y.eq(2)).all();
        }, 1);
    }

    static Tensor apply(Op op, Tensor... inputs) {
        return Tensor.compute(op, inputs);
    }

    private static Tensor updated(Update op, int which, Tensor... operands) {
        Tensor.apply(op, operands);
        return operands[which];
    }

    private static Tensor u8(long... elements) {
        return i64(elements).to(DType.U8);
    }

    private static Tensor bool(boolean... elements) {
        return Tensor.of(elements);
    }
}
