package dev.starling.tensor;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** Connectionist temporal classification in tensor operations; see {@link Losses#ctcLoss}. */
final class Ctc {
    /** The logarithm of a probability of 0. Differences of infinities would be NaN in the gradient. */
    private static final double IMPOSSIBLE = -1e30;

    /** Classes {@code [N, S]} with blanks in place of padding. */
    private final Tensor labels;
    /** Number of labels of each sequence, {@code [N]}. */
    final Tensor count;
    private final long blank;

    Ctc(Tensor target, long blank) {
        Tensor classes = target.to(DType.I64);
        Tensor padding = classes.lt(0).or(classes.eq(blank)).to(DType.I64).cumsum(1).gt(0);
        labels = classes.maskedFill(padding, blank);
        count = padding.not().sum(1);
        this.blank = blank;
    }

    static void check(Tensor log, Tensor target, @Nullable Tensor lengths, long blank) {
        String relation = log.rank() != 3 || target.rank() != 2 || log.size(0) != target.size(0)
                ? "probabilities must be [N, T, C] and targets [N, S]"
                : lengths != null && !lengths.shape().equals(Shape.of(log.size(0))) ? "lengths must be [N]"
                : blank < 0 || blank >= log.size(2) ? "the blank must be one of the classes 0 to " + (log.size(2) - 1)
                + ", got " + blank : null;
        List<Spec> operands = lengths == null ? List.of(log.spec(), target.spec())
                : List.of(log.spec(), target.spec(), lengths.spec());
        if (relation != null) {
            throw new TensorException(TensorException.Problem.SHAPE, "ctcLoss", operands, relation,
                    "sequences come first, then steps of time: transpose(0, 1) changes the order");
        }
        if (target.dtype().isFloating() || !log.dtype().isFloating()
                || lengths != null && lengths.dtype().isFloating()) {
            throw new TensorException(TensorException.Problem.DTYPE, "ctcLoss", operands,
                    "probabilities must be floating, targets and lengths integers", "convert them with to(..)");
        }
    }

    /** Returns the negative logarithms of the probabilities of the labels, {@code [N]}. */
    Tensor losses(Tensor log, @Nullable Tensor lengths) {
        Tensor column = labels.sum(true, 1).mul(0).add(blank);
        Tensor between = labels.mul(0).add(blank);
        long n = log.size(0);
        // Before, between and after the labels may be a blank.
        Tensor states = Tensor.concat(1, Tensor.stack(2, between, labels).reshape(n, 2 * labels.size(1)), column);
        Tensor alpha = forward(log, states, lengths);
        Tensor last = count.mul(2).unsqueeze(1);
        Tensor label = alpha.gather(1, last.sub(1).clamp(0, states.size(1))).maskedFill(last.eq(0), IMPOSSIBLE);
        Tensor losses = Tensor.concat(1, alpha.gather(1, last), label).logSumExp(false, 1).neg();
        return losses.maskedFill(losses.gt(-IMPOSSIBLE / 2), Double.POSITIVE_INFINITY);
    }

    /** Returns the logarithms of the probabilities to be in each state after the last step, {@code [N, 2·S + 1]}. */
    private Tensor forward(Tensor log, Tensor states, @Nullable Tensor lengths) {
        long size = states.size(1);
        long[] shape = {log.size(0), log.size(1), size};
        Tensor[] emitted = log.gather(2, states.unsqueeze(1).expand(shape)).unstack(1);
        // A blank, or the label before, must not be skipped by the same.
        Tensor skip = size == 1 ? states.zerosLike().to(log.dtype()) : states.narrow(1, 2, size - 2)
                .eq(states.narrow(1, 0, size - 2)).to(log.dtype()).mul(IMPOSSIBLE).pad(new long[] {0, 2},
                new long[] {0, 0}, IMPOSSIBLE);
        // Before the first step the only state is the one from which the first blank and the first label follow.
        Tensor alpha = Tensor.arange(new Spec(log.dtype(), Shape.of(size), log.device()), 0, 1).gt(0).to(log.dtype())
                .mul(IMPOSSIBLE).expand(shape[0], size);
        for (int t = 0; t < emitted.length; t++) {
            Tensor next = Tensor.stack(0, alpha, after(alpha, 1), after(alpha, 2).add(skip)).logSumExp(false, 0)
                    .add(emitted[t]);
            alpha = lengths == null ? next : lengths.gt(t).unsqueeze(1).where(next, alpha);
        }
        return alpha;
    }

    /** Returns each state's predecessor at a distance. */
    private static Tensor after(Tensor alpha, long distance) {
        return alpha.pad(new long[] {0, distance}, new long[] {0, 0}, IMPOSSIBLE).narrow(1, 0, alpha.size(1));
    }
}
