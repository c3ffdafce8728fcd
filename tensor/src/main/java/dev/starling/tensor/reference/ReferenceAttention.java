package dev.starling.tensor.reference;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import org.jspecify.annotations.Nullable;

/** Attention, one query at a time. */
final class ReferenceAttention {
    private final Attention op;
    private final int queries;
    private final int keys;
    private final int width;
    private final int depth;
    private final Elements q;
    private final Elements k;
    private final Elements v;
    private final @Nullable Elements mask;
    private final boolean chosen;
    private final double[] scores;

    private ReferenceAttention(Attention op, Tensor q, Tensor k, Tensor v, @Nullable Tensor mask, Shape lead) {
        this.op = op;
        queries = Math.toIntExact(q.size(-2));
        keys = Math.toIntExact(k.size(-2));
        width = Math.toIntExact(q.size(-1));
        depth = Math.toIntExact(v.size(-1));
        this.q = Elements.of(q, lead.concat(Shape.of(queries, width)));
        this.k = Elements.of(k, lead.concat(Shape.of(keys, width)));
        this.v = Elements.of(v, lead.concat(Shape.of(keys, depth)));
        this.mask = mask == null ? null : Elements.of(mask, lead.concat(Shape.of(queries, keys)));
        chosen = mask != null && mask.dtype() == DType.BOOL;
        scores = new double[keys];
    }

    static void run(Attention op, Tensor[] in, Tensor[] out) {
        Shape lead = out[0].shape().slice(0, out[0].rank() - 2);
        switch (op) {
            case Attention.ScaledDotProduct _ -> new ReferenceAttention(op, in[0], in[1], in[2],
                    in.length == 4 ? in[3] : null, lead).forward(out[0], out[1]);
            case Attention.ScaledDotProductGradient _ -> new ReferenceAttention(op, in[1], in[2], in[3],
                    in.length == 7 ? in[6] : null, lead).backward(in[0], in[4], in[5], out);
        }
    }

    /** Returns the number of keys that a query can see; the mask may still hide some. */
    private int visible(long row) {
        return op.causal() ? (int) Math.min(keys, row % queries + 1) : keys;
    }

    /** Computes the scores of a query, which is numbered through all heads; those of hidden keys are -∞. */
    private void score(long row) {
        long head = row / queries;
        for (int j = 0; j < keys; j++) {
            double sum = 0;
            for (int e = 0; e < width; e++) {
                sum += q.get(row * width + e) * k.get((head * keys + j) * width + e);
            }
            sum *= op.scale();
            boolean hidden = j >= visible(row) || mask != null && chosen && mask.getLong(row * keys + j) == 0;
            scores[j] = hidden ? Double.NEGATIVE_INFINITY
                    : mask != null && !chosen ? sum + mask.get(row * keys + j) : sum;
        }
    }

    private void forward(Tensor out, Tensor logs) {
        Elements y = Elements.of(out);
        Elements log = Elements.of(logs);
        for (long row = 0; row < logs.count(); row++) {
            score(row);
            double max = Double.NEGATIVE_INFINITY;
            for (int j = 0; j < visible(row); j++) {
                max = Math.max(max, scores[j]);
            }
            boolean blind = max == Double.NEGATIVE_INFINITY;
            double sum = 0;
            for (int j = 0; j < visible(row); j++) {
                scores[j] = blind ? 0 : StrictMath.exp(scores[j] - max);
                sum += scores[j];
            }
            log.set(row, blind ? Double.NEGATIVE_INFINITY : max + StrictMath.log(sum));
            for (int e = 0; e < depth; e++) {
                double total = 0;
                for (int j = 0; j < visible(row); j++) {
                    total += scores[j] * v.get((row / queries * keys + j) * depth + e);
                }
                y.set(row * depth + e, blind ? 0 : total / sum);
            }
        }
    }

    private void backward(Tensor gradient, Tensor out, Tensor logs, Tensor[] results) {
        Elements g = Elements.of(gradient);
        Elements y = Elements.of(out);
        Elements log = Elements.of(logs);
        double[] dk = new double[Math.toIntExact(results[1].count())];
        double[] dv = new double[Math.toIntExact(results[2].count())];
        double[] dq = new double[Math.toIntExact(results[0].count())];
        for (long row = 0; row < logs.count(); row++) {
            score(row);
            double tilt = 0;
            for (int e = 0; e < depth; e++) {
                tilt += g.get(row * depth + e) * y.get(row * depth + e);
            }
            for (int j = 0; j < visible(row); j++) {
                long key = row / queries * keys + j;
                boolean blind = log.get(row) == Double.NEGATIVE_INFINITY;
                double weight = blind ? 0 : StrictMath.exp(scores[j] - log.get(row));
                double slope = -tilt;
                for (int e = 0; e < depth; e++) {
                    slope += g.get(row * depth + e) * v.get(key * depth + e);
                    dv[(int) key * depth + e] += weight * g.get(row * depth + e);
                }
                for (int e = 0; e < width; e++) {
                    dq[(int) row * width + e] += op.scale() * weight * slope * k.get(key * width + e);
                    dk[(int) key * width + e] += op.scale() * weight * slope * q.get(row * width + e);
                }
            }
        }
        Elements.of(results[0]).setAll(dq);
        Elements.of(results[1]).setAll(dk);
        Elements.of(results[2]).setAll(dv);
    }
}
