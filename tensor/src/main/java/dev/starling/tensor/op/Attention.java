package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Attention that stores no matrix of scores. NaN and infinity in a key or value may reach queries from which a mask
 * hides it.
 */
public sealed interface Attention extends Op {
    /** Returns the factor of the scores. */
    double scale();

    /** Returns whether query {@code i} attends to keys {@code 0..i} only. */
    boolean causal();

    /**
     * Operands {@code (q [.., L, E], k [.., S, E], v [.., S, V])} and optionally {@code mask}, which broadcasts to
     * {@code [.., L, S]}, give {@code (softmax(scale·q·kᵀ + mask)·v [.., L, V], log-sum-exp of the scores [.., L])}.
     * The second result, f32 or f64, serves the gradient and carries none itself. A mask is bool, true where a query
     * attends to a key, or of the operands' type and added to the scores. A query whose scores are all -∞ gives 0, with
     * either kind of mask, and contributes to no gradient. (Vaswani et al., 2017; Dao et al., 2022)
     *
     * @param scale factor of the scores
     * @param causal whether query {@code i} attends to keys {@code 0..i} only
     */
    record ScaledDotProduct(double scale, boolean causal) implements Attention {
        @Override
        public String name() {
            return "attention";
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 3, 4);
            Spec mask = in.length == 4 ? in[3] : null;
            Shape lead = check(this, mask, in[0], in[1], in[2]);
            long length = in[0].shape().dim(-2);
            DType wide = in[0].dtype() == DType.F64 ? DType.F64 : DType.F32;
            return new Spec[] {in[0].with(lead.concat(Shape.of(length, in[2].shape().dim(-1)))),
                in[0].with(wide).with(lead.concat(Shape.of(length)))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor q = b.in(0);
            Tensor k = b.in(1);
            Tensor v = b.in(2);
            Tensor mask = b.inputs().length == 4 ? b.in(3) : null;
            Tensor[] gradients = new Tensor[b.inputs().length];
            if (b.recorded() || mask != null && b.needs(3)) {
                composed(b, mask, gradients);
                return gradients;
            }
            Op fused = new ScaledDotProductGradient(scale, causal);
            Tensor[] all = mask == null ? Tensor.apply(fused, b.grad(), q, k, v, b.out(0), b.out(1))
                    : Tensor.apply(fused, b.grad(), q, k, v, b.out(0), b.out(1), mask);
            for (int i = 0; i < 3; i++) {
                gradients[i] = b.needs(i) ? all[i].sumTo(b.in(i).shape()) : null;
            }
            return gradients;
        }

        private void composed(Backward b, @Nullable Tensor mask, Tensor[] gradients) {
            Tensor weights = weights(b.in(0), b.in(1), mask, causal, scale);
            Tensor g = b.grad().matmul(b.in(2).t());
            Tensor scores = weights.mul(g.sub(g.mul(weights).sum(true, -1)));
            gradients[0] = b.needs(0) ? scores.matmul(b.in(1)).mul(scale).sumTo(b.in(0).shape()) : null;
            gradients[1] = b.needs(1) ? scores.t().matmul(b.in(0)).mul(scale).sumTo(b.in(1).shape()) : null;
            gradients[2] = b.needs(2) ? weights.t().matmul(b.grad()).sumTo(b.in(2).shape()) : null;
            if (mask != null && b.needs(3)) {
                gradients[3] = scores.sumTo(mask.shape());
            }
        }
    }

    /**
     * Operands {@code (g, q, k, v, y, log-sum-exp)} and optionally {@code mask} give the gradients of
     * {@code (q, k, v)}, with the leading dimensions to which all operands broadcast. (Dao, 2023)
     *
     * @param scale as in {@link ScaledDotProduct}
     * @param causal as in {@link ScaledDotProduct}
     */
    record ScaledDotProductGradient(double scale, boolean causal) implements Attention, GradientKernel {
        @Override
        public String name() {
            return "attentionGradient";
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 6, 7);
            Spec[] results = new ScaledDotProduct(scale, causal).infer(in.length == 6
                    ? new Spec[] {in[1], in[2], in[3]} : new Spec[] {in[1], in[2], in[3], in[6]});
            Check.sameType(this, in[0], in[1], in[4]);
            if (!in[0].shape().equals(results[0].shape()) || !in[4].shape().equals(results[0].shape())
                    || !in[5].equals(results[1])) {
                throw Check.shape(this, "g and y must be " + results[0] + ", log-sum-exp " + results[1],
                        "pass the gradient of y, and both results of attention", in);
            }
            Shape lead = results[0].shape().slice(0, results[0].shape().rank() - 2);
            Spec[] gradients = new Spec[3];
            for (int i = 0; i < 3; i++) {
                Shape s = in[i + 1].shape();
                gradients[i] = in[i + 1].with(lead.concat(s.slice(s.rank() - 2, s.rank())));
            }
            return gradients;
        }
    }

    /**
     * Returns the weights {@code softmax(scale·q·kᵀ + mask) [.., L, S]}, composed of simpler operations, for dropout
     * and higher derivatives. Parameters as in {@link ScaledDotProduct}; the mask may be {@code null}.
     */
    static Tensor weights(Tensor q, Tensor k, @Nullable Tensor mask, boolean causal, double scale) {
        Tensor scores = q.mul(scale).matmul(k.t());
        Tensor hidden = causal ? future(q.size(-2), k.size(-2), q.device()) : null;
        if (mask != null && mask.dtype() == DType.BOOL) {
            hidden = hidden == null ? mask.not() : mask.not().or(hidden);
        } else if (mask != null) {
            scores = scores.add(mask);
        }
        Tensor seen = hidden == null ? scores : scores.maskedFill(hidden, Double.NEGATIVE_INFINITY);
        if (mask == null || k.size(-2) == 0) {
            return seen.softmax(-1);
        }
        Tensor blind = Recorder.with(Recorder.NONE, () -> seen.max(true, -1).eq(Double.NEGATIVE_INFINITY));
        return seen.maskedFill(blind, 0).softmax(-1).maskedFill(blind, 0);
    }

    /** Returns {@code [queries, keys]}, true where the key is later than the query. */
    private static Tensor future(long queries, long keys, Device device) {
        Tensor i = Tensor.arange(new Spec(DType.I64, Shape.of(queries), device), 0, 1);
        Tensor j = Tensor.arange(new Spec(DType.I64, Shape.of(keys), device), 0, 1);
        return j.gt(i.unsqueeze(1));
    }

    /** Checks operands and returns their leading dimensions. */
    private static Shape check(Op op, @Nullable Spec mask, Spec... in) {
        Check.floating(op, in);
        Check.sameType(op, in);
        for (Spec s : in) {
            Check.shape(s.shape().rank() >= 2, op, "operands must be [.., length, width]", "unsqueeze them", in);
        }
        Shape q = in[0].shape();
        Shape k = in[1].shape();
        Shape v = in[2].shape();
        Check.shape(q.dim(-1) == k.dim(-1), op, "queries and keys must have the same width", "project one of them", in);
        Check.shape(k.dim(-2) == v.dim(-2), op, "there must be a value for each key", "pass keys and values of one"
                + " sequence", in);
        Shape lead = Check.lead(op, q.slice(0, q.rank() - 2), k.slice(0, k.rank() - 2), in);
        lead = Check.lead(op, lead, v.slice(0, v.rank() - 2), in);
        if (mask != null) {
            Shape scores = lead.concat(Shape.of(q.dim(-2), k.dim(-2)));
            if (!scores.equals(Shape.broadcast(scores, mask.shape()))) {
                throw Check.shape(op, "the mask must broadcast to " + scores, "reshape the mask", in[0], in[1], in[2],
                        mask);
            }
            Check.dtype(mask.dtype() == DType.BOOL || mask.dtype() == in[0].dtype(), op,
                    "the mask must be bool or of the operands' type", "cast with to(DType)", in[0], in[1], in[2], mask);
        }
        return lead;
    }
}
