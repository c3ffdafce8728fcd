package dev.starling.tensor;

import dev.starling.tensor.op.CrossEntropy;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Loss functions. */
public final class Losses {
    /** A value of {@code ignored} that ignores no target. */
    public static final long NONE_IGNORED = Long.MIN_VALUE;

    private Losses() {
    }

    /** How the losses of a batch are reduced. */
    public enum Reduce {
        /** No reduction: one loss per element. */
        NONE,
        /** The mean of the losses. */
        MEAN,
        /** The sum of the losses. */
        SUM;

        Tensor of(Tensor losses) {
            return switch (this) {
                case NONE -> losses;
                case MEAN -> losses.mean();
                case SUM -> losses.sum();
            };
        }
    }

    /**
     * Mean cross-entropy without smoothing and ignored class; see
     * {@link #crossEntropy(Tensor, Tensor, Reduce, double, long)}.
     */
    public static Tensor crossEntropy(Tensor logits, Tensor target) {
        return crossEntropy(logits, target, Reduce.MEAN, 0, NONE_IGNORED);
    }

    /**
     * Cross-entropy between {@code softmax(logits)} and targets. (label smoothing: Szegedy et al., 2015)
     *
     * @param logits {@code [N, C]} or {@code [N, C, *d]}; 16-bit logits are computed in f32 if the targets are classes
     * @param target classes, i64 or i32 {@code [N]} or {@code [N, *d]}; or probabilities, floating like {@code logits}
     * @param smoothing share of the target that is distributed evenly over all classes
     * @param ignored targets of this class are left out, for example -100; {@link #NONE_IGNORED} leaves out none. The
     *     mean is over the remaining targets, and NaN if there are none
     * @return a scalar, or a tensor shaped like class targets; f32 for classes with 16-bit logits
     */
    public static Tensor crossEntropy(Tensor logits, Tensor target, Reduce reduce, double smoothing, long ignored) {
        if (!(smoothing >= 0 && smoothing <= 1)) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "crossEntropy",
                    List.of(logits.spec(), target.spec()), "0 <= smoothing <= 1 must hold, got " + smoothing,
                    "change the smoothing");
        }
        if (target.dtype().isFloating()) {
            requireSame("crossEntropy", logits, target);
            Tensor q = smoothing == 0 ? target : target.mul(1 - smoothing).add(smoothing / logits.size(1));
            Tensor losses = q.mul(logits.logSoftmax(1)).sum(1).neg();
            return reduce.of(losses);
        }
        Tensor rows = rows("crossEntropy", logits, target);
        Tensor flat = target.reshape(target.count());
        Tensor losses = Tensor.compute(new CrossEntropy.Loss(smoothing, ignored), rows, flat);
        return reduced(losses, target, reduce, ignored);
    }

    /**
     * Negative log-likelihood: {@code -logProbabilities} at the target.
     *
     * @param logProbabilities {@code [N, C]} or {@code [N, C, *d]}
     * @param target classes, i64 or i32 {@code [N]} or {@code [N, *d]}
     * @param ignored as in {@link #crossEntropy}
     * @return a scalar, or a tensor shaped like the targets
     */
    public static Tensor nllLoss(Tensor logProbabilities, Tensor target, Reduce reduce, long ignored) {
        Tensor rows = rows("nllLoss", logProbabilities, target);
        Tensor flat = target.reshape(target.count());
        // To gather, -1 would be the last class; this number is out of range.
        Tensor classes = flat.maskedFill(flat.lt(0), Integer.MIN_VALUE);
        Tensor losses;
        if (ignored == NONE_IGNORED) {
            losses = rows.gather(1, classes.unsqueeze(1)).squeeze(1).neg();
        } else {
            Tensor left = flat.eq(ignored);
            losses = rows.gather(1, classes.maskedFill(left, 0).unsqueeze(1)).squeeze(1).neg().maskedFill(left, 0);
        }
        return reduced(losses, target, reduce, ignored);
    }

    /** Binary cross-entropy between {@code sigmoid(logits)} and probabilities {@code target} of the same shape. */
    public static Tensor binaryCrossEntropyWithLogits(Tensor logits, Tensor target, Reduce reduce) {
        requireSame("binaryCrossEntropyWithLogits", logits, target);
        Tensor x = logits.to(logits.dtype().toFloating());
        Tensor y = target.to(DType.promote(x.dtype(), target.dtype()));
        // -ln(1 - σ(x)) and -ln σ(x); the shorter softplus(x) - x·y cancels where both terms are large.
        return reduce.of(x.softplus().mul(y.neg().add(1)).add(x.neg().softplus().mul(y)));
    }

    /** Squared error between tensors of the same shape. */
    public static Tensor mseLoss(Tensor x, Tensor target, Reduce reduce) {
        requireSame("mseLoss", x, target);
        return reduce.of(difference(x, target).square());
    }

    /** Absolute error between tensors of the same shape. */
    public static Tensor l1Loss(Tensor x, Tensor target, Reduce reduce) {
        requireSame("l1Loss", x, target);
        return reduce.of(difference(x, target).abs());
    }

    /**
     * Huber loss: {@code ½d²} for an absolute error d below {@code delta}, else {@code delta·(d - ½delta)}. (Huber,
     * 1964)
     */
    public static Tensor huberLoss(Tensor x, Tensor target, Reduce reduce, double delta) {
        requireSame("huberLoss", x, target);
        if (!(delta > 0)) {
            throw TensorException.argument("huberLoss", "delta must be > 0, got " + delta, "use l1Loss");
        }
        Tensor distance = difference(x, target).abs();
        Tensor near = distance.clamp(0, delta);
        return reduce.of(near.mul(distance.sub(near.mul(0.5))));
    }

    /**
     * Smooth L1 loss: {@code ½d²/beta} for an absolute error d below {@code beta}, else {@code d - ½beta}. (Girshick,
     * 2015) It is computed in f32 for 16-bit floats, and rounded once.
     */
    public static Tensor smoothL1Loss(Tensor x, Tensor target, Reduce reduce, double beta) {
        DType type = DType.promote(x.dtype(), target.dtype()).toFloating();
        // The Huber loss, which is beta times as large, may overflow or underflow in f16.
        DType wide = type.bytes() == 2 ? DType.F32 : type;
        return huberLoss(x.to(wide), target.to(wide), reduce, beta).mul(1 / beta).to(type);
    }

    /**
     * Kullback-Leibler divergence {@code target·(ln target - logProbabilities)}, element by element; 0 where the target
     * is 0. For the divergence per sample, divide the sum by the batch size; the mean divides by the number of
     * elements.
     *
     * @param logProbabilities of the model
     * @param target probabilities of the same shape
     */
    public static Tensor klDiv(Tensor logProbabilities, Tensor target, Reduce reduce) {
        requireSame("klDiv", logProbabilities, target);
        Tensor none = target.le(0);
        Tensor log = target.maskedFill(none, 1).log();
        return reduce.of(target.mul(log.sub(logProbabilities.maskedFill(none, 0))));
    }

    /**
     * Connectionist temporal classification: the negative logarithm of the probability that a sequence of steps, each
     * of which emits a class or the blank, gives the labels in their order, with repetitions of a class and blanks
     * removed. A sequence that is too short for its labels has an infinite loss with gradient 0. (Graves et al., 2006)
     *
     * @param logProbabilities {@code [N, T, C]}, logarithms of probabilities of the classes in each step;
     *     16-bit floats are computed in f32
     * @param target {@code [N, S]}, integers; labels end at the first that is negative or the blank, or with the row
     * @param lengths {@code [N]}, integers: the number of steps of each sequence; {@code null} if all have T
     * @param blank class of the blank
     * @param reduce the mean is over losses divided by the number of their labels, or 1
     * @param zeroInfinity whether an infinite loss counts as 0
     * @return a scalar or {@code [N]}
     */
    public static Tensor ctcLoss(Tensor logProbabilities, Tensor target, @Nullable Tensor lengths, long blank,
            Reduce reduce, boolean zeroInfinity) {
        Ctc.check(logProbabilities, target, lengths, blank);
        Ctc ctc = new Ctc(target, blank);
        Tensor losses = ctc.losses(logProbabilities.dtype().bytes() == 2 ? logProbabilities.to(DType.F32)
                : logProbabilities, lengths);
        Tensor finite = zeroInfinity ? losses.maskedFill(losses.isInf(), 0) : losses;
        Tensor parts = ctc.count.clamp(1, Integer.MAX_VALUE).to(finite.dtype());
        return reduce.of(reduce == Reduce.MEAN ? finite.div(parts) : finite);
    }

    /** Returns {@code [N·d, C]}: the class dimension last, the others merged. */
    private static Tensor rows(String op, Tensor x, Tensor target) {
        if (x.rank() < 2 || !x.shape().without(1).equals(target.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, op, List.of(x.spec(), target.spec()),
                    "x must be [N, C, *d] and the targets [N, *d]", "use class indices, not one-hot rows");
        }
        if (x.rank() == 2) {
            return x;
        }
        return x.movedim(1, -1).reshape(target.count(), x.size(1));
    }

    private static Tensor reduced(Tensor losses, Tensor target, Reduce reduce, long ignored) {
        return switch (reduce) {
            case NONE -> losses.reshape(target.shape());
            case SUM -> losses.sum();
            case MEAN -> ignored == NONE_IGNORED ? losses.mean() : mean(losses, target.ne(ignored));
        };
    }

    /** Returns the sum of losses divided by the number of those that are kept; rounded once for 16-bit floats. */
    private static Tensor mean(Tensor losses, Tensor kept) {
        DType type = losses.dtype();
        return type.bytes() == 2 ? mean(losses.to(DType.F32), kept).to(type)
                : losses.sum().div(kept.sum().to(type));
    }

    /** Returns {@code x - target}, floating even for integers, whose difference could wrap around. */
    private static Tensor difference(Tensor x, Tensor target) {
        return x.to(DType.promote(x.dtype(), target.dtype()).toFloating()).sub(target);
    }

    private static void requireSame(String op, Tensor a, Tensor b) {
        if (!a.shape().equals(b.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, op, List.of(a.spec(), b.spec()),
                    "operands must have the same shape", "reshape or expand one; losses do not broadcast");
        }
    }
}
