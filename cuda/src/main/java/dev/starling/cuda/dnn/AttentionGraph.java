package dev.starling.cuda.dnn;

import dev.starling.cuda.dnn.Graph.Function;
import dev.starling.cuda.dnn.Graph.Lengths;
import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.kernels.AttentionCall;
import dev.starling.tensor.DType;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Attention and its gradient as graphs of the form that cuDNN's attention engines recognise; these engines never store
 * virtual operands. Operands in memory have the first numbers, in the order of the methods' parameters.
 */
final class AttentionGraph {
    private final Graph graph = new Graph();
    private final AttentionCall call;
    private final long[] scores;
    private final long[] rows;

    private AttentionGraph(AttentionCall call) {
        this.call = call;
        scores = sizes(call.queries(), call.keys());
        rows = sizes(call.queries(), 1);
    }

    private long[] sizes(long rowCount, long columns) {
        return new long[] {call.batch(), call.heads(), rowCount, columns};
    }

    private Operand memory(AttentionCall.Rows r, long rowCount, long columns) {
        return graph.memory(call.type(), sizes(rowCount, columns), new long[] {r.batch(), r.head(), r.row(), 1});
    }

    /** The transpose of an operand: keys and values as right operands of a product. */
    private Operand transposed(AttentionCall.Rows r, long rowCount, long columns) {
        return graph.memory(call.type(), sizes(columns, rowCount), new long[] {r.batch(), r.head(), 1, r.row()});
    }

    private Operand dense(DType type, long rowCount, long columns) {
        return graph.memory(type, sizes(rowCount, columns), Graph.dense(sizes(rowCount, columns)));
    }

    /** The mask that is added to the scores, or {@code null}. */
    private @Nullable Operand mask() {
        AttentionCall.Rows r = call.mask();
        if (r == null) {
            return null;
        }
        long head = call.queries() * r.row();
        long[] sizes = {r.batch() == 0 ? 1 : call.batch(), r.head() == 0 ? 1 : call.heads(), call.queries(),
            call.keys()};
        long[] strides = {r.batch() == 0 ? head : r.batch(), r.head() == 0 ? head : r.head(), r.row(), 1};
        return graph.memory(call.type(), sizes, strides);
    }

    /** The lengths of sequences. */
    private Operand lengths() {
        return graph.memory(DType.I32, new long[] {call.batch(), 1, 1, 1}, new long[] {1, 1, 1, 1});
    }

    /**
     * Returns the graph of attention: of q, k, v, y, log-sum-exp and the mask, if there is one.
     */
    static Graph forward(AttentionCall call) {
        return new AttentionGraph(call).forward();
    }

    /**
     * Returns the graph of the gradients: of q, k, v, y, log-sum-exp, g, dq, dk, dv, working memory for sums
     * {@code [batch, heads, queries]}, then for slopes {@code [batch, heads, queries, width]} if not exact, the mask if
     * there is one, and the lengths of queries and keys if padded. The log-sum-exp of queries that attend to nothing is
     * +∞.
     *
     * @param exact whether gradients of queries are summed in a fixed order, for which engines need more working memory
     * @param padded whether the scores pass through a padding mask
     */
    static Graph backward(AttentionCall call, boolean exact, boolean padded) {
        return new AttentionGraph(call).backward(exact, padded);
    }

    private Graph forward() {
        Operand q = memory(call.q(), call.queries(), call.width());
        Operand k = transposed(call.k(), call.keys(), call.width());
        Operand v = memory(call.v(), call.keys(), call.depth());
        Operand y = memory(call.y(), call.queries(), call.depth());
        Operand logs = dense(DType.F32, call.queries(), 1);
        Operand s = causal(masked(scaled(product(q, k, Lengths.ALL)), mask()));
        Operand max = graph.fold(true, s, graph.virtual(DType.F32, rows));
        Operand e = graph.apply(Function.EXP, graph.apply(Function.SUB, s, max), null);
        Operand sum = graph.fold(false, e, graph.virtual(DType.F32, rows));
        graph.apply(Function.ADD, max, graph.apply(Function.LOG, sum, null), null, logs);
        Operand weights = graph.apply(Function.DIV, e, sum, null, graph.virtual(call.type(), scores));
        graph.product(weights, v, y, Lengths.ALL);
        return graph;
    }

    private Graph backward(boolean exact, boolean padded) {
        Operand q = memory(call.q(), call.queries(), call.width());
        Operand k = transposed(call.k(), call.keys(), call.width());
        Operand v = transposed(call.v(), call.keys(), call.depth());
        Operand y = memory(call.y(), call.queries(), call.depth());
        Operand logs = dense(DType.F32, call.queries(), 1);
        Operand g = memory(Objects.requireNonNull(call.g()), call.queries(), call.depth());
        Operand dq = dense(call.type(), call.queries(), call.width());
        Operand dk = dense(call.type(), call.keys(), call.width());
        Operand dv = dense(call.type(), call.keys(), call.depth());
        Operand sums = dense(DType.F32, call.queries(), 1);
        Operand slopes = exact ? null : dense(DType.F32, call.queries(), call.width());
        Operand mask = mask();
        Operand queries = padded ? lengths() : null;
        Operand keys = padded ? lengths() : null;
        Operand products = graph.apply(Function.MUL, g, y, null,
                graph.virtual(DType.F32, sizes(call.queries(), call.depth())));
        Operand dots = graph.fold(false, products, graph.virtual(DType.F32, rows));
        graph.apply(Function.MUL, dots, graph.constant(1), null, sums);
        Lengths ofScores = new Lengths(queries, keys, null);
        Lengths ofKeys = new Lengths(keys, null, queries);
        Operand s = masked(scaled(product(q, k, ofScores)), mask);
        if (queries != null && keys != null) {
            s = padded(s, queries, keys);
        }
        Operand weights = graph.apply(Function.EXP, causal(graph.apply(Function.SUB, s, logs)), null);
        graph.product(graph.transposed(weights, call.type()), g, dv, ofKeys);
        Operand tilted = graph.apply(Function.SUB, product(g, v, ofScores), sums);
        Operand ds = scaled(graph.apply(Function.MUL, tilted, weights));
        graph.product(graph.transposed(ds, call.type()), q, dk, ofKeys);
        graph.product(ds, graph.transposed(k, call.type()), slopes == null ? dq : slopes,
                new Lengths(queries, null, keys));
        if (slopes != null) {
            graph.apply(Function.IDENTITY, slopes, null, null, dq);
        }
        return graph;
    }

    private Operand product(Operand a, Operand b, Lengths lengths) {
        return graph.product(a, b, graph.virtual(DType.F32, scores), lengths);
    }

    private Operand scaled(Operand x) {
        return graph.apply(Function.MUL, x, graph.constant(call.scale()));
    }

    private Operand masked(Operand x, @Nullable Operand mask) {
        return mask == null ? x : graph.apply(Function.ADD, x, mask);
    }

    private Operand padded(Operand x, Operand queries, Operand keys) {
        Operand row = graph.index(x, 2);
        Operand column = graph.index(x, 3);
        Operand within = graph.test(Function.LESS, row, queries);
        return select(x, graph.test(Function.AND, within, graph.test(Function.LESS, column, keys)));
    }

    private Operand causal(Operand x) {
        return !call.causal() ? x : select(x, graph.test(Function.GREATER_EQUAL, graph.index(x, 2), graph.index(x, 3)));
    }

    private Operand select(Operand x, Operand where) {
        return graph.apply(Function.SELECT, x, graph.constant(Float.NEGATIVE_INFINITY), where,
                graph.virtual(DType.F32, scores));
    }
}
