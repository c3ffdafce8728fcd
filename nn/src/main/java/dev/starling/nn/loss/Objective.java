package dev.starling.nn.loss;

import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What the training of a {@link dev.starling.nn.Model} minimises: the weighted sum of losses of its results. The target
 * of a result is the field of the data that has its name. A result may have no loss.
 *
 * <pre>{@code
 * Objective.of("price", Loss.meanSquared()).and("kind", Loss.crossEntropy(), 0.5)
 * }</pre>
 *
 * <p>Immutable.
 */
public final class Objective {
    private final List<Term> terms;

    /**
     * The loss of one result.
     *
     * @param output name of the result, and of the field that is its target
     * @param loss the loss
     * @param weight its factor in the sum
     * @param rowWeights name of the field with a weight for each row; empty if all count alike
     */
    public record Term(String output, Loss loss, double weight, Optional<String> rowWeights) { }

    private Objective(List<Term> terms) {
        this.terms = terms;
    }

    /** Returns the loss of one result. */
    public static Objective of(String output, Loss loss) {
        return of(output, loss, 1);
    }

    /** Returns the loss of one result, multiplied by a weight. */
    public static Objective of(String output, Loss loss, double weight) {
        return new Objective(List.of()).and(output, loss, weight);
    }

    /** Returns the sum of this and the loss of another result. */
    public Objective and(String output, Loss loss) {
        return and(output, loss, 1);
    }

    /**
     * Returns the sum of this and the loss of another result, multiplied by a weight.
     *
     * @throws TensorException if the result has a loss already, or the weight is not finite
     */
    public Objective and(String output, Loss loss, double weight) {
        if (!Double.isFinite(weight)) {
            throw TensorException.argument("objective", "the weight of " + output + " must be finite, got " + weight,
                    "use for example 0.5");
        }
        if (terms.stream().anyMatch(term -> term.output.equals(output))) {
            throw TensorException.argument("objective", output + " has a loss already",
                    "join both losses with Loss.plus and Loss.times");
        }
        return new Objective(Stream.concat(terms.stream(), Stream.of(new Term(output, loss, weight, Optional.empty())))
                .toList());
    }

    /**
     * Returns these losses, where that of one result multiplies each row by a weight; see {@link Loss#weighted}.
     *
     * @param output name of the result, which has a loss
     * @param field name of the field of the data that has the weights, {@code [N]}
     * @throws TensorException if the result has no loss
     */
    public Objective weighted(String output, String field) {
        if (terms.stream().noneMatch(term -> term.output.equals(output))) {
            throw TensorException.argument("objective", output + " has no loss, only "
                    + terms.stream().map(Term::output).toList(), "add its loss before the weights of its rows");
        }
        return new Objective(terms.stream().map(term -> term.output.equals(output) ? new Term(output, term.loss,
                term.weight, Optional.of(field)) : term).toList());
    }

    /** Returns the losses. */
    public List<Term> terms() {
        return terms;
    }

    /** Describes the losses, for processes that train together and compare their settings. */
    public String describe() {
        return terms.stream().map(term -> term.output + ": " + (term.weight == 1 ? "" : term.weight + " times ")
                + term.loss.describe() + term.rowWeights.map(" weighted by "::concat).orElse(""))
                .collect(Collectors.joining(", "));
    }

    @Override
    public String toString() {
        return describe();
    }
}
