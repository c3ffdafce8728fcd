package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;

import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.FormulaOp;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Normalization;

import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Selection;

import dev.starling.tensor.op.Sorting;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.View;
import dev.starling.tensor.op.Where;
import java.util.Set;

/**
 * Compares an operation's result with that of the reference device for the same operands. Operations that move or
 * select elements must match bit for bit. A sum of products may differ from the exact one by the rounding of each
 * product and partial sum; any other function by as much as it changes with its operands changed by a few rounding
 * units. NaN equals NaN only, an infinity only itself.
 */
final class Oracle {
    /**
     * Rounding units, of the type in which a kernel computes, by which operands of a function that is not a sum may
     * change.
     */
    private static final double OPERAND_ROUNDINGS = 16;

    /** Changes of all operands together, in addition to those of a single operand. */
    private static final int MIXED = 12;
    /** A position is that within the operand, with the operand's number in the bits above. */
    private static final int OPERAND_BITS = 22;

    private static final Set<FormulaOp> EXACT = Set.of(Unary.NEG, Unary.ABS, Unary.SIGN, Unary.FLOOR, Unary.CEIL,
            Unary.ROUND, Unary.TRUNC, Activation.RELU, Activation.RELU_GRADIENT, Binary.MAXIMUM, Binary.MINIMUM);
    private static final Set<Op> CANCELLING = Set.of(Activation.GELU, Activation.GELU_TANH, Activation.GELU_GRADIENT,
            Activation.GELU_TANH_GRADIENT, Activation.SILU_GRADIENT);

    private Oracle() {
    }

    /** Returns the first difference in words, or {@code null} if there is none. */
    static String difference(Op op, Tensor[] in, Tensor[] out) {
        Snapshot[] given = snapshots(in);
        Snapshot[] actual = snapshots(out);
        if (op instanceof View view) {
            return ViewOracle.difference(view, given[0], actual);
        }
        Snapshot[] expected = reference(op, given);
        for (int i = 0; i < actual.length; i++) {
            if (actual[i].dtype() == DType.U8 && op instanceof Recurrence) {
                continue;
            }
            String difference = difference(op, given, actual[i], expected[i], i);
            if (difference != null) {
                return "result " + i + " of " + op + " is wrong: " + difference;
            }
        }
        return null;
    }

    static Snapshot[] snapshots(Tensor... tensors) {
        Snapshot[] snapshots = new Snapshot[tensors.length];
        for (int i = 0; i < snapshots.length; i++) {
            snapshots[i] = Snapshot.of(tensors[i]);
        }
        return snapshots;
    }

    static Snapshot[] reference(Op op, Snapshot... given) {
        Tensor[] operands = new Tensor[given.length];
        for (int i = 0; i < operands.length; i++) {
            operands[i] = given[i].on(Device.reference());
        }
        Tensor[] results = Tensor.apply(onReference(op), operands);
        Snapshot[] snapshots = snapshots(results);
        for (Tensor t : operands) {
            t.close();
        }
        for (Tensor t : results) {
            t.close();
        }
        return snapshots;
    }

    private static Spec there(Spec spec) {
        return new Spec(spec.dtype(), spec.shape(), Device.reference());
    }

    private static Op onReference(Op op) {
        return switch (op) {
            case Fill.Full o -> new Fill.Full(there(o.spec()), o.value());
            case Fill.Range o -> new Fill.Range(there(o.spec()), o.start(), o.step());
            case Random.Uniform o -> new Random.Uniform(there(o.spec()), o.low(), o.high(), o.seed(), o.counter());
            case Random.Normal o -> new Random.Normal(there(o.spec()), o.mean(), o.deviation(), o.seed(), o.counter());
            case Random.Bernoulli o -> new Random.Bernoulli(there(o.spec()), o.probability(), o.seed(), o.counter());
            case Random.Integers o -> new Random.Integers(there(o.spec()), o.low(), o.high(), o.seed(), o.counter());
            default -> op;
        };
    }

    private static String difference(Op op, Snapshot[] given, Snapshot actual, Snapshot expected, int result) {
        if (actual.dtype() != expected.dtype() || !actual.shape().equals(expected.shape())) {
            return actual.dtype() + actual.shape().toString() + " instead of " + expected.dtype() + expected.shape();
        }
        if (!expected.dtype().isFloating() || movesBits(op)) {
            String difference = actual.differenceInBits(expected);
            return difference == null ? null : difference + " (the latter is correct)";
        }
        double[] a = actual.reals();
        double[] e = expected.reals();
        double[] slack = null;
        for (int i = 0; i < e.length; i++) {
            if (close(op, expected.dtype(), a[i], e[i])) {
                continue;
            }
            slack = slack == null ? slack(op, given, e.length, result) : slack;
            if (op instanceof Normalization && result > 0 && !Double.isFinite(e[i]) && !Double.isFinite(a[i])) {
                // Statistics of values that are not finite are infinite or NaN, depending on the origin that a kernel
                // uses.
                continue;
            }
            if (op instanceof Convolution && Double.isNaN(a[i]) && !finite(given)) {
                // Kernels also multiply the zeros of the padding, so that 0·∞ may differ there, and nothing else.
                continue;
            }
            boolean overflown = !exact(op) && beyond(expected.dtype(), a[i]) && beyond(expected.dtype(), e[i])
                    && Math.signum(a[i]) == Math.signum(e[i]);
            if (overflown || slack[i] == Double.POSITIVE_INFINITY) {
                continue;
            }
            double bound = slack[i] + relative(op, expected.dtype()) * Math.abs(e[i]);
            if (!(Math.abs(a[i] - e[i]) <= bound)) {
                return "[" + i + "] is " + a[i] + " instead of " + e[i] + " ± " + bound;
            }
        }
        return null;
    }

    private static boolean close(Op op, DType type, double a, double e) {
        if (a == e || Double.isNaN(a) && Double.isNaN(e)) {
            return true;
        }
        if (exact(op) || !Double.isFinite(e)) {
            return false;
        }
        // Kernels may flush subnormal numbers to zero, except those of f16.
        double smallest = type == DType.F64 ? Double.MIN_NORMAL : type == DType.F16 ? 0x1p-24 : Float.MIN_NORMAL;
        return Math.abs(a - e) <= relative(op, type) * Math.abs(e) + 2 * smallest;
    }

    /** The error of a power grows with the logarithm of the result. */
    private static double relative(Op op, DType type) {
        double epsilon = epsilon(type);
        return type.bytes() == 2 ? 2 * epsilon : op == Binary.POW || op instanceof Unary.PowScalar
                ? 200 * epsilon : 16 * epsilon;
    }

    static double epsilon(DType type) {
        return switch (type) {
            case F64 -> 0x1p-52;
            case F16 -> 0x1p-10;
            case BF16 -> 0x1p-7;
            default -> 0x1p-23;
        };
    }

    /** Returns whether a number is so large that sums of the type may overflow in one order and not in another. */
    private static boolean beyond(DType type, double value) {
        double largest = switch (type) {
            case F64 -> Double.MAX_VALUE;
            case F16 -> 65_504;
            default -> Float.MAX_VALUE;
        };
        return Math.abs(value) > 0.98 * largest;
    }

    private static boolean finite(Snapshot... given) {
        for (Snapshot s : given) {
            for (double v : s.dtype().isFloating() ? s.reals() : new double[0]) {
                if (!Double.isFinite(v)) {
                    return false;
                }
            }
        }
        return true;
    }

    private static boolean movesBits(Op op) {
        return switch (op) {
            case Movement o -> true;
            case Selection.Take o -> true;
            case Selection.Gather o -> true;
            case Selection.Scatter o -> true;
            case Sorting o -> true;
            case Where o -> true;
            case Fill o -> true;
            case Random.Dropout o -> false;
            case Random o -> true;
            case Cast o -> true;
            default -> false;
        };
    }

    private static boolean exact(Op op) {
        return switch (op) {
            case FormulaOp o -> EXACT.contains(o);
            case Unary.Clamp o -> true;
            case Reduction.Max o -> true;
            case Reduction.Min o -> true;
            case Pooling.MaxPool o -> true;
            default -> movesBits(op);
        };
    }

    /** Returns by how much each element may differ from the reference, beyond the rounding of its own type. */
    private static double[] slack(Op op, Snapshot[] given, int count, int result) {
        if (exact(op)) {
            return new double[count];
        }
        DType type = given[0].dtype().isFloating() || given.length == 1 ? given[0].dtype() : given[1].dtype();
        if (isSum(op)) {
            return slackOfSum(op, type, given, result);
        }
        double own = epsilon(op instanceof Elementwise && type.bytes() == 2 ? DType.F32 : type);
        double roundings = type.bytes() == 2 && !(op instanceof Elementwise) ? 2 : OPERAND_ROUNDINGS;
        double[] middle = changed(op, given, result, (v, i) -> v);
        double[] slack = new double[count];
        for (int k = 0; k < given.length + MIXED; k++) {
            int round = k;
            double by = roundings * own;
            double[] moved = changed(op, given, result, (v, i) -> v * (1 + by * (round >= given.length
                    ? sign(i, round) : i >> OPERAND_BITS == round ? 1 : 0)));
            for (int i = 0; i < count; i++) {
                double distance = Math.abs(moved[i] - middle[i]);
                slack[i] = Math.max(slack[i], Double.isFinite(distance) ? 4 * distance : 0);
            }
        }
        addCancelled(op, own, given, slack);
        if (op instanceof Normalization.BatchNorm || op instanceof Normalization.LayerNorm) {
            addRoundedMean(op, own, given, result, middle, slack);
        }
        if (op instanceof Recurrence) {
            // A gate near 1 is rounded in units of 1, and so is its complement, with which it multiplies the state.
            double bound = 1;
            for (double v : middle) {
                bound = Math.max(bound, Double.isFinite(v) ? Math.abs(v) : 0);
            }
            for (int i = 0; i < count; i++) {
                slack[i] += 16 * own * bound;
            }
        }
        if (excused(op, type, given)) {
            java.util.Arrays.fill(slack, Double.POSITIVE_INFINITY);
        }
        return slack;
    }

    /**
     * A mean is a sum: its rounding error is relative to the largest summand, and shifts x against it. If all summands
     * are equal, each partial sum may be rounded in the same direction.
     */
    private static void addRoundedMean(Op op, double own, Snapshot[] given, int result, double[] middle,
            double[] slack) {
        double largest = 0;
        for (double v : given[0].reals()) {
            largest = Math.max(largest, Double.isFinite(v) ? Math.abs(v) : 0);
        }
        int weights = Math.max(1, given[1].reals().length);
        int summands = op instanceof Normalization.LayerNorm ? weights : given[0].reals().length / weights;
        double by = Math.max(OPERAND_ROUNDINGS, summands / 2) * own * largest;
        for (int k = 0; k < 4; k++) {
            int round = k;
            double[] moved = changed(op, given, result, (v, i) -> i >> OPERAND_BITS != 0 ? v
                    : v + by * (round == 0 ? 1 : sign(i, round)));
            for (int i = 0; i < slack.length; i++) {
                double distance = Math.abs(moved[i] - middle[i]);
                slack[i] = Math.max(slack[i], Double.isFinite(distance) ? distance : 0);
            }
        }
    }

    private static int sign(int place, int round) {
        long bits = (place + 1) * 0x9E3779B97F4A7C15L + round * 0xD1342543DE82EF95L;
        bits = (bits ^ bits >>> 30) * 0xBF58476D1CE4E5B9L;
        return (bits ^ bits >>> 27) * 0x94D049BB133111EBL < 0 ? -1 : 1;
    }

    /** In the tails of these functions numbers near 1 cancel; their rounding is absolute, not relative. */
    private static void addCancelled(Op op, double own, Snapshot[] given, double[] slack) {
        boolean cancels = CANCELLING.contains(op);
        Snapshot scale = given[given.length - 1];
        if (op == Activation.SILU) {
            // The sigmoid may be flushed to zero although its product with x is not subnormal.
            double smallest = given[0].dtype() == DType.F64 ? Double.MIN_NORMAL : Float.MIN_NORMAL;
            double[] reals = given[0].reals();
            for (int i = 0; i < slack.length; i++) {
                slack[i] += Double.isFinite(reals[i]) ? 2 * smallest * Math.min(1000, Math.abs(reals[i])) : 0;
            }
        }
        if (cancels && scale.count() == slack.length) {
            double[] reals = scale.reals();
            for (int i = 0; i < slack.length; i++) {
                slack[i] += 16 * own * Math.abs(reals[i]);
            }
        }
    }

    private static boolean isSum(Op op) {
        return op instanceof Contraction.MatMul || op instanceof Contraction.Linear
                || op instanceof Contraction.LinearWeightGradient || op instanceof Convolution
                || op instanceof Reduction.Sum || op instanceof Reduction.Mean
                || op instanceof Scan || op instanceof Selection || op instanceof Pooling;
    }

    /** Returns the rounding error of n partial sums in any order, each at most as large as the sum of magnitudes. */
    private static double[] slackOfSum(Op op, DType type, Snapshot[] given, int result) {
        Op plain = op instanceof Contraction.Linear ? new Contraction.Linear(Epilogue.NONE) : op;
        double[] magnitudes = changed(plain, given, 0 < result && plain != op ? 0 : result, (v, i) -> Math.abs(v));
        int bound = 1;
        for (Snapshot s : given) {
            bound = Math.max(bound, s.count());
        }
        // Sums of 16-bit numbers accumulate in f32, but the operand of an epilogue may be rounded before.
        double unit = type.bytes() == 2 ? 2 * epsilon(type) : epsilon(type) * (8 + 2 * Math.sqrt(bound));
        double[] finite = changed(plain, given, 0 < result && plain != op ? 0 : result,
                (v, i) -> Double.isFinite(v) ? Math.abs(v) : 0);
        for (int i = 0; i < magnitudes.length; i++) {
            // Partial sums of large numbers overflow in one order and not in another.
            magnitudes[i] = beyond(type, finite[i]) ? Double.POSITIVE_INFINITY
                    : Double.isFinite(magnitudes[i]) ? unit * magnitudes[i] : 0;
        }
        return magnitudes;
    }

    /**
     * Returns whether a result is not compared: intermediate results overflow, or hidden values may show, as
     * documented.
     */
    private static boolean excused(Op op, DType type, Snapshot... given) {
        if (op instanceof Elementwise) {
            return false;
        }
        double bound = type == DType.F64 ? 1e150 : 1e15;
        for (Snapshot s : given) {
            if (s.dtype().isFloating()) {
                for (double v : s.reals()) {
                    if (Double.isFinite(v) && Math.abs(v) > bound || op instanceof Attention && Double.isNaN(v)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    /** Returns a result of the operation in f64, with changed floating operands. */
    private static double[] changed(Op op, Snapshot[] given, int result, Snapshot.Change change) {
        Snapshot[] wide = given.clone();
        for (int i = 0; i < wide.length; i++) {
            int apart = i << OPERAND_BITS;
            wide[i] = wide[i].dtype().isFloating() ? wide[i].changed((v, place) -> change.of(v, apart + place))
                    : wide[i];
        }
        return reference(op, wide)[result].reals();
    }

}
