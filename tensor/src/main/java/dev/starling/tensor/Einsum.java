package dev.starling.tensor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Sums of products in Einstein notation: {@code einsum("bij,bjk->bik", a, b)}. A letter names a dimension. Dimensions
 * that the output lacks are summed; a letter that occurs twice in one operand selects its diagonal; {@code ...} stands
 * for the remaining dimensions, which broadcast. Without {@code ->} the output has the ellipsis, then the letters that
 * occur once, in alphabetical order, capitals first.
 */
public final class Einsum {
    /** Dimensions under an ellipsis are labelled -1, -2, .. from the last one to the first. */
    private static final int ELLIPSIS = -1;

    private final String equation;
    private final Tensor[] operands;
    private final List<List<Integer>> terms = new ArrayList<>();
    private List<Integer> output = List.of();

    private Einsum(String equation, Tensor... operands) {
        this.equation = equation;
        this.operands = operands;
    }

    /**
     * Evaluates an equation. Operands are converted to their promoted type and contracted from left to right.
     *
     * @throws TensorException if the equation is malformed or does not fit the operands
     */
    public static Tensor einsum(String equation, Tensor... operands) {
        Einsum e = new Einsum(equation, operands);
        e.parse();
        return e.evaluate();
    }

    private TensorException fault(TensorException.Problem problem, String relation, String remedy) {
        return new TensorException(problem, "einsum(\"" + equation + "\")",
                Arrays.stream(operands).map(Tensor::spec).toList(), relation, remedy);
    }

    private TensorException malformed(String relation) {
        return fault(TensorException.Problem.ARGUMENT, relation, "write it like \"...ij,jk->...ik\"");
    }

    // ---- the equation ----

    private void parse() {
        String text = equation.replaceAll("\\s", "");
        int arrow = text.indexOf("->");
        String[] inputs = (arrow < 0 ? text : text.substring(0, arrow)).split(",", -1);
        if (operands.length == 0 || inputs.length != operands.length) {
            throw malformed("names " + inputs.length + " operands, got " + operands.length);
        }
        int widest = 0;
        for (int i = 0; i < inputs.length; i++) {
            int letters = inputs[i].replace("...", "").length();
            int covered = operands[i].rank() - letters;
            boolean open = inputs[i].contains("...");
            if (open ? covered < 0 : covered != 0) {
                throw fault(TensorException.Problem.SHAPE, "\"" + inputs[i] + "\" names " + letters
                        + " dimensions, operand " + i + " has " + operands[i].rank(),
                        "name each dimension, or use ...");
            }
            terms.add(labels(inputs[i], covered));
            widest = Math.max(widest, open ? covered : 0);
        }
        output = arrow < 0 ? implied(widest) : labels(text.substring(arrow + 2), widest);
        for (int label : output) {
            if (output.indexOf(label) != output.lastIndexOf(label)) {
                throw malformed("the output names " + name(label) + " twice");
            }
            if (label >= 0 && terms.stream().noneMatch(t -> t.contains(label))) {
                throw malformed("the output names " + name(label) + ", which occurs in no operand");
            }
        }
    }

    /**
     * Returns the labels of a term: that of each letter and, for an ellipsis, one for each of {@code covered}
     * dimensions.
     */
    private List<Integer> labels(String term, int covered) {
        List<Integer> labels = new ArrayList<>();
        boolean open = false;
        for (int i = 0; i < term.length(); i++) {
            char c = term.charAt(i);
            if (term.startsWith("...", i) && !open) {
                open = true;
                i += 2;
                for (int k = covered - 1; k >= 0; k--) {
                    labels.add(ELLIPSIS - k);
                }
            } else if (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
                labels.add((int) c);
            } else {
                throw malformed("'" + c + "' is not a letter");
            }
        }
        return labels;
    }

    private List<Integer> implied(int widest) {
        List<Integer> labels = labels("...", widest);
        for (int c = 'A'; c <= 'z'; c++) {
            int label = c;
            if (terms.stream().flatMap(List::stream).filter(l -> l == label).count() == 1) {
                labels.add(label);
            }
        }
        return labels;
    }

    private static String name(int label) {
        return label < 0 ? "..." : "'" + (char) label + "'";
    }

    // ---- evaluation ----

    /** A tensor with one label for each dimension; no label occurs twice. */
    private record Term(Tensor tensor, List<Integer> labels) {
        long size(int label) {
            int i = labels.indexOf(label);
            return i < 0 ? 1 : tensor.size(i);
        }

        /** Returns the tensor with the dimensions {@code wanted}, in this order; those that it lacks have size 1. */
        Tensor as(List<Integer> wanted) {
            int[] order = wanted.stream().filter(labels::contains).mapToInt(labels::indexOf).toArray();
            Tensor x = tensor.permute(order);
            return x.reshape(wanted.stream().mapToLong(this::size).toArray());
        }
    }

    private Tensor evaluate() {
        DType meet = operands[0].dtype();
        for (Tensor t : operands) {
            meet = DType.promote(meet, t.dtype());
        }
        if (meet == DType.BOOL) {
            throw fault(TensorException.Problem.DTYPE, "operands must be numbers", "cast with to(DType)");
        }
        Term result = null;
        for (int i = 0; i < operands.length; i++) {
            Term next = reduced(diagonals(new Term(operands[i].to(meet), terms.get(i))), i, result);
            result = result == null ? next : contract(result, next, i);
        }
        return Objects.requireNonNull(result, "an equation has operands").as(output);
    }

    /** Returns whether the output or an operand after {@code i} has this label. */
    private boolean later(int label, int i) {
        return output.contains(label) || terms.subList(i + 1, terms.size()).stream().anyMatch(t -> t.contains(label));
    }

    private Term diagonals(Term term) {
        Term t = term;
        for (int i = 0; i < t.labels.size(); i++) {
            int label = t.labels.get(i);
            int last = t.labels.lastIndexOf(label);
            while (last != i) {
                if (t.tensor.size(i) != t.tensor.size(last)) {
                    throw fault(TensorException.Problem.SHAPE, name(label) + " names sizes " + t.tensor.size(i)
                            + " and " + t.tensor.size(last) + " in one operand", "use two letters");
                }
                List<Integer> labels = new ArrayList<>(t.labels);
                labels.remove(last);
                t = new Term(t.tensor.diagonal(0, i, last).movedim(-1, i), labels);
                last = t.labels.lastIndexOf(label);
            }
        }
        return t;
    }

    /** Sums over the dimensions that only this operand has. */
    private Term reduced(Term term, int i, @Nullable Term before) {
        List<Integer> dropped = term.labels.stream()
                .filter(l -> !later(l, i) && (before == null || !before.labels.contains(l))).toList();
        return sum(term, dropped);
    }

    private static Term sum(Term term, List<Integer> dropped) {
        if (dropped.isEmpty()) {
            return term;
        }
        int[] axes = dropped.stream().mapToInt(term.labels::indexOf).toArray();
        List<Integer> left = new ArrayList<>(term.labels);
        left.removeAll(dropped);
        return new Term(term.tensor.sum(axes).to(term.tensor.dtype()), left);
    }

    /**
     * Multiplies two terms, and sums over dimensions that neither the output nor a later operand has: a batched matrix
     * product.
     */
    private Term contract(Term a, Term b, int i) {
        List<Integer> batch = new ArrayList<>();
        List<Integer> inner = new ArrayList<>();
        for (int label : a.labels) {
            if (b.labels.contains(label)) {
                long m = a.size(label);
                long n = b.size(label);
                if (m != n && m != 1 && n != 1) {
                    throw fault(TensorException.Problem.SHAPE, name(label) + " names sizes " + m + " and " + n,
                            "sizes must agree or be 1");
                }
                (later(label, i) || m != n ? batch : inner).add(label);
            }
        }
        List<Integer> rows = new ArrayList<>(a.labels);
        rows.removeAll(b.labels);
        List<Integer> columns = new ArrayList<>(b.labels);
        columns.removeAll(a.labels);
        List<Integer> labels = join(batch, rows, columns);
        Tensor product;
        if (inner.isEmpty()) {
            product = a.as(labels).mul(b.as(labels));
        } else {
            Tensor left = merge(merge(a.as(join(batch, rows, inner)), batch.size(), rows.size()), batch.size() + 1,
                    inner.size());
            Tensor right = merge(merge(b.as(join(batch, inner, columns)), batch.size(), inner.size()),
                    batch.size() + 1, columns.size());
            Tensor matrix = left.matmul(right);
            Shape lead = matrix.shape().slice(0, batch.size());
            product = matrix.reshape(lead.concat(sizes(a, rows)).concat(sizes(b, columns)));
        }
        return sum(new Term(product, labels), batch.stream().filter(l -> !later(l, i)).toList());
    }

    @SafeVarargs
    private static List<Integer> join(List<Integer>... parts) {
        return Arrays.stream(parts).flatMap(List::stream).toList();
    }

    private static Shape sizes(Term term, List<Integer> labels) {
        return Shape.of(labels.stream().mapToLong(term::size).toArray());
    }

    /** Returns {@code x} with {@code count} dimensions, starting at {@code from}, merged into one of size 1 or more. */
    private static Tensor merge(Tensor x, int from, int count) {
        return count == 0 ? x.unsqueeze(from) : x.flatten(from, from + count - 1);
    }
}
