package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException.Problem;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Comparison;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Philox;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Softmax;
import dev.starling.tensor.op.Sorting;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.program.Program;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** A caller's mistake is a typed error before anything runs, with operation, operands, requirement and remedy. */
class BadInputTest {
    private static final Shape MATRIX = Shape.of(2, 3);

    /**
     * A request that must be refused.
     *
     * @param call the request
     * @param problem the kind of problem in the error
     * @param op the operation that the error names
     * @param parts what the message must contain, beside the operation
     */
    private record Bad(Supplier<?> call, Problem problem, String op, String... parts) {
        @Override
        public String toString() {
            return op + ": " + problem;
        }
    }

    private static Tensor ones(long... shape) {
        return Tensor.ones(shape);
    }

    private static Tensor whole(long... shape) {
        return Tensor.full(DType.I32, 1, shape);
    }

    private static Tensor elsewhere() {
        return Device.with(Device.reference(), () -> ones(2, 3));
    }

    private static Bad shape(Supplier<?> call, String op, String... parts) {
        return new Bad(call, Problem.SHAPE, op, parts);
    }

    private static Bad dtype(Supplier<?> call, String op, String... parts) {
        return new Bad(call, Problem.DTYPE, op, parts);
    }

    static Stream<Bad> shapes() {
        return Stream.of(
                shape(() -> ones(2, 3).add(ones(2, 4)), "add", "f32[2, 3]@cpu", "f32[2, 4]@cpu", "broadcast"),
                shape(() -> ones(2, 3).matmul(ones(2, 3)), "matMul", "f32[2, 3]@cpu"),
                shape(() -> Functions.linear(ones(4, 5), ones(2, 3), null), "linear", "f32[4, 5]", "f32[2, 3]"),
                shape(() -> Functions.linear(ones(4, 3), ones(2, 3), ones(3)), "linear", "f32[3]"),
                shape(() -> ones(2, 3).reshape(4, 2), "reshape", "f32[2, 3]"),
                shape(() -> ones(2, 3).expand(5, 3), "expand", "f32[2, 3]"),
                shape(() -> Tensor.concat(0, ones(2, 3), ones(2, 4)), "concat", "f32[2, 4]"),
                shape(() -> Tensor.concat(0, Collections.nCopies(34, ones(1).expand((1L << 59) - 1))
                        .toArray(Tensor[]::new)), "concat", "2^63"),
                shape(() -> Convolutions.conv2d(ones(1, 3, 8, 8), ones(4, 2, 3, 3), null, 1, 0, 1, 1), "conv",
                        "f32[1, 3, 8, 8]", "f32[4, 2, 3, 3]"),
                shape(() -> Convolutions.conv2d(ones(1, 3, 4, 4), ones(4, 3, 5, 5), null, 1, 0, 1, 1), "conv",
                        "kernel must fit", "f32[4, 3, 5, 5]"),
                shape(() -> Convolutions.conv2d(ones(3, 8, 8), ones(4, 3, 3, 3), null, 1, 0, 1, 1), "conv", "rank"),
                shape(() -> Pools.maxPool2d(ones(1, 1, 2, 2), 3, 1, 0), "maxPool", "must fit", "f32[1, 1, 2, 2]"),
                shape(() -> Norms.batchNorm(ones(1, 4), ones(4), ones(4), 1e-5), "batchNorm", "f32[1, 4]"),
                shape(() -> Norms.batchNorm(ones(2, 4), ones(3), ones(4), 1e-5), "batchNorm", "f32[3]"),
                shape(() -> Norms.layerNorm(ones(2, 4), ones(3), ones(3), 1e-5), "layerNorm", "f32[2, 4]"),
                shape(() -> Losses.crossEntropy(ones(2, 4), Tensor.of(new long[] {0})), "crossEntropy", "f32[2, 4]"),
                shape(() -> Losses.crossEntropy(ones(2, 4), ones(2)), "crossEntropy", "f32[2]"),
                shape(() -> Losses.mseLoss(ones(2, 1), ones(2), Losses.Reduce.MEAN), "mseLoss", "f32[2, 1]"),
                shape(() -> Tensor.of(new float[5], 2, 3), "copyOf", "24 bytes", "20"));
    }

    /** Kernels count the elements of a row with an {@code int}. */
    static Stream<Bad> rows() {
        long n = 1L << 31;
        Tensor matrix = ones(1, 1).expand(1, n);
        Tensor row = ones(1).expand(n);
        Op gradient = new CrossEntropy.Gradient(0, -100);
        return Stream.of(
                shape(() -> matrix.softmax(1), "softmax", "2147483648", "f32[1, 2147483648]"),
                shape(() -> matrix.logSoftmax(1), "logSoftmax", "2147483648"),
                shape(() -> matrix.sort(1, false), "sort", "2147483648"),
                shape(() -> matrix.topk(1, 1, true), "topK", "2147483648"),
                shape(() -> Losses.crossEntropy(matrix, Tensor.of(new long[] {0})), "crossEntropy", "2147483648"),
                shape(() -> compute(gradient, ones(1), matrix, ones(1, 2), whole(1)), "crossEntropyGradient",
                        "2147483648"),
                shape(() -> Norms.layerNorm(matrix, row, row, 1e-5), "layerNorm", "2147483648"),
                shape(() -> compute(new Normalization.LayerNormGradient(), matrix, matrix, row, ones(1), ones(1)),
                        "layerNormGradient", "2147483648"),
                shape(() -> Norms.batchNorm(ones(1, 1).expand(2, n), row, row, 1e-5), "batchNorm", "2147483648"));
    }

    static Stream<Bad> types() {
        return Stream.of(
                dtype(() -> Functions.linear(whole(4, 3), ones(2, 3), null), "linear", "i32[4, 3]"),
                dtype(() -> Functions.linear(ones(4, 3), ones(2, 3).to(DType.F64), null), "linear", "f64[2, 3]"),
                dtype(() -> Convolutions.conv2d(whole(1, 1, 4, 4), whole(1, 1, 3, 3), null, 1, 0, 1, 1), "conv",
                        "i32[1, 1, 4, 4]", "floating"),
                dtype(() -> Norms.batchNorm(whole(2, 4), whole(4), whole(4), 1e-5), "batchNorm", "i32[2, 4]"),
                dtype(() -> Norms.batchNorm(whole(2, 4), ones(4), ones(4), null, null, 1e-5), "batchNorm",
                        "i32[2, 4]", "floating"),
                dtype(() -> Norms.groupNorm(whole(2, 4), 2, ones(4), null, 1e-5), "groupNorm", "i32[2, 4]", "floating"),
                dtype(() -> Norms.rmsNorm(whole(2, 4), ones(4), 1e-5), "rmsNorm", "i32[2, 4]", "floating"),
                dtype(() -> Pools.adaptiveAvgPool(whole(1, 1, 5), 2), "adaptiveAvgPool", "i32[1, 1, 5]", "floating"),
                dtype(() -> Functions.embedding(ones(5, 2), ones(3)), "take", "f32[3]", "i64"),
                dtype(() -> ones(2).where(ones(2), ones(2)), "where", "f32[2]", "bool"));
    }

    static Stream<Bad> devices() {
        return Stream.of(
                new Bad(() -> ones(2, 3).add(elsewhere()), Problem.DEVICE, "add", "f32[2, 3]@cpu",
                        "f32[2, 3]@reference", "to(device)"),
                new Bad(() -> ones(2, 3).matmul(elsewhere().t()), Problem.DEVICE, "matMul", "@reference"),
                new Bad(() -> ones(6).storage().view(elsewhere().spec(), new long[] {3, 1}, 0), Problem.DEVICE, "view",
                        "@reference", "is on cpu"),
                new Bad(() -> ones(2).to(Device.cuda(0)), Problem.DEVICE, "device cuda:0", "starling-cuda"),
                new Bad(() -> Device.with(Device.of("cpu", 7), () -> ones(2)), Problem.DEVICE, "device cpu:7",
                        "smaller index"));
    }

    static Stream<Bad> arguments() {
        return Stream.of(
                new Bad(() -> Shape.of(2, -1), Problem.ARGUMENT, "shape", "-1"),
                new Bad(() -> Shape.of(1L << 40, 1L << 40), Problem.ARGUMENT, "shape", "1099511627776"),
                new Bad(() -> Shape.of(1L << 62, 0), Problem.ARGUMENT, "shape", "elements"),
                new Bad(() -> ones(2, 3).sum(2), Problem.ARGUMENT, "shape", "axis 2"),
                new Bad(() -> ones(2, 3).narrow(1, 2, 2), Problem.SHAPE, "slice", "f32[2, 3]"),
                new Bad(() -> Convolutions.conv2d(ones(1, 3, 8, 8), ones(4, 3, 3, 3), null, 0, 0, 1, 1),
                        Problem.ARGUMENT, "conv", "stride"),
                new Bad(() -> Convolutions.conv2d(ones(1, 4, 8, 8), ones(3, 2, 3, 3), null, 1, 0, 1, 2),
                        Problem.ARGUMENT, "conv", "groups"),
                new Bad(() -> Tensor.zeros(1L << 50), Problem.MEMORY, "allocate", "4503599627370496 bytes"));
    }

    private static Bad argument(Supplier<?> call, String op, String... parts) {
        return new Bad(call, Problem.ARGUMENT, op, parts);
    }

    private static Bad memory(Supplier<?> call, String op, String... parts) {
        return new Bad(call, Problem.MEMORY, op, parts);
    }

    static Stream<Bad> places() {
        return Stream.of(
                argument(() -> ones(2, 3).unsqueeze(5), "shape", "axis 5", "[2, 3]"),
                argument(() -> ones(2, 3).unsqueeze(Integer.MIN_VALUE), "shape", "axis -2147483648"),
                argument(() -> Tensor.stack(5, ones(2), ones(2)), "shape", "axis 5"),
                argument(() -> Tensor.stack(0), "stack", "none"),
                argument(() -> Tensor.compute(new Update.Assign(), ones(2), ones(2)), "assign", "no result"),
                argument(() -> Tensor.stack(-1), "stack", "none"),
                argument(() -> Tensor.concat(0), "concat", "none"),
                argument(() -> MATRIX.slice(1, 0), "shape", "1 to 0"),
                argument(() -> MATRIX.slice(0, 3), "shape", "0 to 3"),
                argument(() -> MATRIX.slice(-1, 1), "shape", "-1 to 1"),
                argument(() -> ones(2, 3).flatten(1, 0), "flatten", "1 to 0"),
                shape(() -> ones(0, 0).squeeze(0), "squeeze", "dimension 0", "size 1"),
                shape(() -> ones(2, 3).squeeze(1), "squeeze", "dimension 1"),
                argument(() -> ones(2, 3).pad(new long[1], new long[2], 0), "pad", "2 sizes", "got 1 and 2"),
                shape(() -> ones(2).pad(new long[] {Long.MAX_VALUE}, new long[] {Long.MAX_VALUE}, 0), "place",
                        "must lie within"),
                argument(() -> ones(2).pad(new long[] {1L << 61}, new long[1], 0), "shape", "elements"),
                shape(() -> ones(2, 3).narrow(1, Long.MAX_VALUE, Long.MAX_VALUE), "slice", "dimension 1"),
                shape(() -> ones(2, 3).narrow(1, 1, Long.MAX_VALUE), "slice", "dimension 1"),
                shape(() -> ones(2, 3).narrow(1, 0, -1), "slice", "dimension 1"),
                shape(() -> slice(new long[] {0}, new long[] {1L << 62}, new long[] {5}), "slice",
                        "4611686018427387904"),
                shape(() -> slice(new long[] {0}, new long[] {Long.MIN_VALUE}, new long[] {3}), "slice", "dimension 0"),
                shape(() -> slice(new long[] {4}, new long[] {Long.MIN_VALUE}, new long[] {2}), "slice", "dimension 0"),
                shape(() -> slice(new long[] {0}, new long[] {0}, new long[] {2}), "slice", "differ"),
                argument(() -> slice(new long[2], new long[] {1}, new long[] {1}), "slice", "start, step and size"),
                argument(() -> ones(2, 3).reshape(-1, 1L << 32, 1L << 32), "shape", "elements"),
                argument(() -> ones(2, 3).expand(1L << 60, 2, 3), "shape", "elements"),
                argument(() -> ones(2, 3).tile(1L << 62, 1L << 62), "shape", "elements"),
                argument(() -> ones(2, 3).repeat(0, Long.MAX_VALUE), "shape", "elements"),
                argument(() -> Tensor.arange(-1), "shape", "-1"),
                argument(() -> Tensor.arange(0, Double.POSITIVE_INFINITY, 1), "arange", "finite"),
                argument(() -> Tensor.arange(0, 1e300, 1), "shape", "elements"),
                argument(() -> Tensor.linspace(0, Double.NaN, 3), "linspace", "finite"),
                argument(() -> Tensor.linspace(0, 1, -3), "shape", "-3"),
                argument(() -> ones(2, 3).split(0, 0), "split", "> 0"),
                argument(() -> ones(2, 3).tril(0).permute(0, 0), "permute", "once"),
                argument(() -> ones(3).expand(2, 3).set(1), "assign", "dimension 0", "f32[2, 3]"),
                argument(() -> Tensor.apply(new Update.Blend(1, 1), ones(1).expand(3), ones(3)), "blend", "expanded"));
    }

    private static Tensor slice(long[] starts, long[] steps, long[] sizes) {
        return Tensor.compute(new View.Slice(starts, steps, sizes), Tensor.full(DType.I8, 1, 5));
    }

    static Stream<Bad> amounts() {
        return Stream.of(
                memory(() -> Tensor.zeros(1L << 42), "allocate", "17592186044416 bytes"),
                memory(() -> Tensor.eye(1L << 40), "allocate", "bytes"),
                memory(() -> Tensor.linspace(0, 1, 1L << 50), "allocate", "bytes"),
                memory(() -> ones(1).expand(1L << 45).add(1), "allocate", "bytes"),
                memory(() -> ones(1).expand(1L << 45).copy(), "allocate", "bytes"),
                memory(() -> ones(1).expand(1L << 33).toFloats(), "array", "8589934592"),
                memory(() -> ones(1).expand(1L << 33).toDoubles(), "array", "heap"),
                memory(() -> ones(1).expand(1L << 33).toLongs(), "array", "heap"),
                memory(() -> ones(1).expand(1L << 40).split(0, 1), "split", "heap"),
                memory(() -> Generator.seeded(1).permutation(Integer.MAX_VALUE), "permutation", "2147483647"),
                memory(() -> ones(1, 1).pad(new long[] {1L << 44, 0}, new long[2], 0), "allocate", "bytes"));
    }

    static Stream<Bad> numbers() {
        Generator g = Generator.seeded(1);
        Spec spec = new Spec(DType.F32, Shape.of(3), Device.cpu());
        double nan = Double.NaN;
        return Stream.of(
                argument(() -> g.uniform(spec, 1, 0), "uniform", "low < high", "1.0 and 0.0"),
                argument(() -> g.uniform(spec, nan, 1), "uniform", "NaN"),
                argument(() -> g.uniform(spec, 0, nan), "uniform", "NaN"),
                argument(() -> g.uniform(spec, 0, Double.POSITIVE_INFINITY), "uniform", "Infinity"),
                argument(() -> g.normal(spec, nan, 1), "normal", "NaN"),
                argument(() -> g.normal(spec, 0, -1), "normal", "-1.0"),
                argument(() -> g.bernoulli(1.5, 3), "bernoulli", "1.5"),
                argument(() -> g.bernoulli(nan, 3), "bernoulli", "NaN"),
                argument(() -> g.integers(3, 3, 2), "integers", "3 and 3"),
                argument(() -> g.integers(Long.MIN_VALUE, Long.MAX_VALUE, 2), "integers", "low < high"),
                argument(() -> g.advance(-1), "generator", "-1"),
                argument(() -> g.permutation(-1), "permutation", "-1"),
                argument(() -> Functions.dropout(ones(3), 1, g), "dropout", "1.0"),
                argument(() -> Functions.dropout(ones(3), nan, g), "dropout", "NaN"),
                argument(() -> ones(3).clamp(nan, 2), "clamp", "NaN"),
                argument(() -> ones(3).clamp(0, nan), "clamp", "NaN"),
                argument(() -> Norms.layerNorm(ones(2, 3), ones(3), null, -1), "layerNorm", "-1.0"),
                argument(() -> Norms.batchNorm(ones(2, 3), null, null, nan), "batchNorm", "NaN"),
                argument(() -> Norms.batchNorm(ones(2, 3), ones(3), ones(3), null, null, -1), "batchNorm", "-1.0"),
                argument(() -> Norms.rmsNorm(ones(2, 3), ones(3), nan), "rmsNorm", "NaN"),
                argument(() -> Threads.with(0, () -> ones(1)), "threads", "got 0"),
                argument(() -> Threads.with(1 << 30, () -> ones(1)), "threads", "1073741824"),
                argument(() -> Philox.bits(1, 2, 4), "philox", "lane"),
                new Bad(() -> Device.of("cpu", -1), Problem.DEVICE, "device cpu", "-1"),
                argument(() -> compute(new CrossEntropy.Loss(2, 0), ones(2, 3), whole(2)), "crossEntropy", "2.0"),
                rule(() -> new Rule.Adam(1, 0.9, 0, 0, false), "beta1 must be in [0, 1), got 1.0"),
                rule(() -> new Rule.Adam(0.9, nan, 0, 0, false), "beta2"),
                rule(() -> new Rule.Adam(0.9, 0.9, -1, 0, false), "epsilon"),
                rule(() -> new Rule.Adam(0.9, 0.9, 0, 1 / 0.0, false), "weightDecay"),
                rule(() -> new Rule.Sgd(-0.1, 0, 0, false), "momentum"),
                rule(() -> new Rule.Sgd(0.9, nan, 0, false), "dampening"),
                rule(() -> new Rule.Adagrad(0, 0, -1), "initial"),
                argument(() -> Tensor.apply(new Rule.Adam(0, 0, 0, 0, false).step(1, 0), ones(2), ones(2), ones(2),
                        ones(2)), "adam", "from 1"),
                argument(() -> Tensor.apply(new Rule.Sgd(0.9, 0, 0, false).step(1, 1), ones(2), ones(2)), "sgd",
                        "velocity"));
    }

    private static Bad rule(Supplier<?> make, String part) {
        return argument(make, "optimiser rule", part);
    }

    private static Tensor compute(Op op, Tensor... operands) {
        return Tensor.compute(op, operands);
    }

    /** The operands of fused gradients must have the specs of the forward operation's operands and results. */
    static Stream<Bad> gradients() {
        Op layer = new Normalization.LayerNormGradient();
        Op batch = new Normalization.BatchNormGradient(Epilogue.NONE);
        Op loss = new CrossEntropy.Gradient(0, -100);
        Op softmax = new Softmax.ExponentialsGradient(1);
        return Stream.of(
                shape(() -> compute(layer, ones(4, 3), ones(4, 3), ones(3), ones(1), ones(1)), "layerNormGradient",
                        "[4]", "f32[1]"),
                shape(() -> compute(layer, ones(4, 3), ones(4, 3), ones(2), ones(4), ones(4)), "layerNormGradient",
                        "trailing"),
                shape(() -> compute(batch, ones(4, 3), ones(4, 3), ones(3), ones(4, 3), ones(1), ones(3)),
                        "batchNormGradient", "[3]", "f32[1]"),
                shape(() -> compute(batch, ones(4, 3), ones(4, 3), ones(3), ones(1, 3), ones(3), ones(3)),
                        "batchNormGradient", "same shape"),
                shape(() -> compute(loss, ones(1), ones(4, 3), ones(4, 2), whole(4)), "crossEntropyGradient", "[4]"),
                shape(() -> compute(loss, ones(4), ones(4, 3), ones(4, 2), whole(2)), "crossEntropyGradient", "[4]"),
                shape(() -> compute(loss, ones(4), ones(4), ones(4, 2), whole(4)), "crossEntropyGradient", "rank 2"),
                shape(() -> compute(softmax, ones(4, 3), ones(1)), "softmaxGradient", "same shape"),
                argument(() -> compute(new Selection.TakeGradient(-1, 3), ones(2, 3), whole(2)), "takeGradient", "-1"),
                argument(() -> compute(new Selection.TakeGradient(0, -3), ones(2, 3), whole(2)), "takeGradient", "-3"),
                argument(() -> compute(Activation.RELU_GRADIENT, ones(4)), "reluGradient", "2 operands"),
                shape(() -> compute(new Attention.ScaledDotProductGradient(1, false), ones(1, 2), ones(2, 2),
                        ones(3, 2), ones(3, 2), ones(2, 2), ones(2)), "attentionGradient", "g and y"));
    }

    /** The wrong number of operands, and dimensions counted from the end, which records do not accept. */
    static Stream<Bad> records() {
        return Stream.of(
                argument(() -> compute(Unary.NEG), "neg", "1 operands, got 0"),
                argument(() -> compute(Unary.EXP, ones(2), ones(2)), "exp", "got 2"),
                argument(() -> compute(Binary.DIV, ones(2)), "div", "got 1"),
                argument(() -> compute(Comparison.LESS, ones(2)), "less", "got 1"),
                argument(() -> compute(Logic.NOT), "not", "got 0"),
                argument(() -> compute(new Cast(DType.F64)), "cast", "got 0"),
                argument(() -> compute(new Movement.Copy()), "copy", "got 0"),
                argument(() -> compute(new Movement.Concat(-1), ones(2), ones(2)), "concat", "axis -1"),
                argument(() -> compute(new Reduction.Sum(new Axes(4), false), ones(2, 3)), "sum", "below the rank"),
                argument(() -> compute(new Reduction.Sum(new Axes(1), false)), "sum", "got 0"),
                argument(() -> compute(new Scan.CumSum(-1, false), ones(2)), "cumSum", "axis -1"),
                argument(() -> compute(new Softmax.Exponentials(1), ones(2)), "softmax", "axis 1"),
                argument(() -> compute(new Sorting.TopK(1, -1, true), ones(2)), "topK", "axis -1"),
                argument(() -> compute(new Selection.Gather(7), ones(2), whole(2)), "gather", "axis 7"),
                argument(() -> compute(new View.Permute(0)), "permute", "got 0"),
                argument(() -> compute(new Fill.Full(ones(2).spec(), 1), ones(2)), "full", "got 1"),
                shape(() -> compute(new Fill.Range(ones(2, 2).spec(), 0, 1)), "range", "rank 1"));
    }

    /** Hooks for backends stay within the memory of their tensor. */
    static Stream<Bad> hooks() {
        Spec square = ones(2, 2).spec();
        return Stream.of(
                shape(() -> ones(4).storage().lend(square, new long[] {100_000_000_000L, 1}), "lend", "100000000000"),
                shape(() -> ones(4).storage().lend(square, new long[] {1}), "lend", "strides"),
                shape(() -> ones(1).expand(4).storage().lend(square, new long[] {2, 1}), "lend", "large enough"),
                shape(() -> closedTensor().storage().lend(square, new long[] {2, 1}), "lend", "open"),
                argument(() -> relend(ones(4), ones(4)), "relend", "lent"),
                argument(() -> relend(ones(4).storage().lend(square, new long[] {2, 1}), ones(5)), "relend",
                        "16 bytes"),
                shape(() -> view(MATRIX, new long[] {3, 1}, 0), "view", "4 elements"),
                shape(() -> view(Shape.of(4), new long[] {1}, 1), "view", "element 1"),
                shape(() -> view(Shape.of(4), new long[] {-1}, 2), "view", "element 2"),
                shape(() -> view(Shape.of(2), new long[] {1L << 62}, 0), "view", "strides"),
                shape(() -> view(Shape.of(1L << 40), new long[] {1L << 40}, 0), "view", "strides"),
                shape(() -> view(Shape.of(3), new long[] {Long.MIN_VALUE}, 0), "view", "strides"),
                shape(() -> view(Shape.of(2), new long[] {1}, -1), "view", "element -1"),
                shape(() -> view(Shape.of(2), new long[0], 0), "view", "strides"),
                shape(() -> new View.Slice(new long[] {9}, new long[] {1}, new long[] {2})
                        .view(ones(4), ones(2).spec()), "view", "4 elements"),
                shape(() -> Storage.allocate(square, new long[] {5, 1}), "allocate", "4 elements"),
                argument(() -> Tensor.wrap(MemorySegment.ofArray(new float[4]), DType.F32, 4), "wrap", "native"),
                argument(() -> Tensor.wrap(Arena.ofAuto().allocate(16).asReadOnly(), DType.F32, 4), "wrap", "writable"),
                argument(() -> Tensor.wrap(closed(), DType.F32, 4), "wrap", "open"));
    }

    private static Tensor closedTensor() {
        Tensor tensor = ones(4);
        tensor.close();
        return tensor;
    }

    private static Tensor relend(Tensor borrower, Tensor from) {
        borrower.storage().relend(from);
        return borrower;
    }

    private static Tensor view(Shape shape, long[] strides, long offset) {
        Tensor whole = ones(4);
        return whole.storage().view(whole.spec().with(shape), strides, offset);
    }

    private static MemorySegment closed() {
        try (Arena arena = Arena.ofConfined()) {
            return arena.allocate(16);
        }
    }

    @ParameterizedTest
    @MethodSource("lengths")
    void refusesLengthsOutOfRange(Device device, DType type, long length) {
        try (Scope scope = Scope.open()) {
            Tensor[] at = Device.with(device, () -> new Tensor[] {ones(3, 2, 4), ones(5, 4), ones(5, 5),
                Tensor.of(new long[] {1, length}).to(type)});
            Recurrences.Weights weights = new Recurrences.Weights(at[1], at[2], null, null);
            assertThatThrownBy(() -> Recurrences.rnn(at[0], null, weights, false, false, at[3]))
                    .isInstanceOf(TensorException.class).hasMessageContainingAll("length " + length, "sequence 1", "3");
        }
    }

    static Stream<Arguments> lengths() {
        return Stream.of(Device.cpu(), Device.reference()).flatMap(d -> Stream.of(-1L, 4L, (long) Integer.MAX_VALUE)
                .flatMap(n -> Stream.of(Arguments.of(d, DType.I64, n), Arguments.of(d, DType.I32, n))));
    }

    @Test
    void rollsByExtremeDistances() {
        Tensor x = Tensor.arange(5);
        assertThat(x.roll(0, Long.MIN_VALUE).toLongs()).containsExactly(3, 4, 0, 1, 2);
        assertThat(x.roll(0, Long.MAX_VALUE).toLongs()).containsExactly(3, 4, 0, 1, 2);
    }

    @ParameterizedTest
    @MethodSource({"shapes", "types", "devices", "arguments", "places", "amounts", "numbers", "gradients", "records",
        "hooks", "rows"})
    void throwsATypedError(Bad bad) {
        try (Scope scope = Scope.open()) {
            assertThatThrownBy(bad.call::get).isInstanceOfSatisfying(TensorException.class, e -> {
                assertThat(e.problem()).as(e.getMessage()).isEqualTo(bad.problem);
                assertThat(e.op()).as(e.getMessage()).isEqualTo(bad.op);
                assertThat(e.getMessage()).startsWith(bad.op + ": ").contains(bad.parts).endsWith(e.remedy());
                assertThat(e.remedy()).isNotBlank();
                assertThat(e.getMessage().lines()).hasSize(1);
            });
            assertThat(ones(2, 3).shape()).isEqualTo(MATRIX);
        }
    }

    @Test
    void closesATensorWithTheArenaOfItsSegment() {
        Tensor wrapped;
        Tensor view;
        Tensor lent;
        Program program;
        Tensor[] outputs;
        try (Arena arena = Arena.ofConfined()) {
            wrapped = Tensor.wrap(arena.allocate(16, 4).fill((byte) 0), DType.F32, 4);
            Tensor weight = wrapped;
            view = wrapped.narrow(0, 1, 2);
            lent = wrapped.storage().lend(ones(2).spec(), new long[] {1});
            program = Program.capture(null, in -> new Tensor[] {in[0].add(weight), in[0]}, ones(4)).program();
            outputs = program.run(wrapped);
            assertThat(outputs[0].toFloats()).containsExactly(0, 0, 0, 0);
        }
        assertThat(wrapped.isClosed()).isTrue();
        for (Tensor tensor : List.of(view, lent, outputs[1])) {
            assertThatThrownBy(tensor::relu).isInstanceOf(TensorException.class).hasMessageContaining("was closed");
            assertThatThrownBy(tensor::toFloats).isInstanceOf(TensorException.class).hasMessageContaining("was closed");
        }
        assertThatThrownBy(wrapped::relu).hasMessageContaining("was closed by its segment's arena")
                .hasMessageContaining("close the arena after the tensor's last use");
        assertThatThrownBy(() -> program.run(ones(4)))
                .hasMessageContaining("a tensor that the program uses was closed");
        program.close();
    }
}
