package dev.starling.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** A plan that appends the results of one model to the columns of its child; {@link BatchRule} creates it. */
@SuppressWarnings("serial") // the sequences in Spark's plans are serialisable, but their static type is not
final class ScoredPlan extends LogicalPlan {
    private static final long serialVersionUID = 1L;

    /**
     * The results of one model that are computed in one forward pass.
     *
     * @param columns map the arguments to the model's input
     * @param kinds of results, one for each attribute that is added
     */
    record Pass(ScoredModel model, Columns columns, List<Output.Kind> kinds) implements java.io.Serializable {
        private static final long serialVersionUID = 1L;

        boolean computesAs(Pass other) {
            return model.computesAs(other.model) && kinds.equals(other.kinds);
        }
    }

    private final Pass pass;
    private final Seq<Expression> arguments;
    private final Seq<Attribute> results;
    private final LogicalPlan child;

    ScoredPlan(Pass pass, Seq<Expression> arguments, Seq<Attribute> results, LogicalPlan child) {
        this.pass = pass;
        this.arguments = arguments;
        this.results = results;
        this.child = child;
    }

    Pass pass() {
        return pass;
    }

    Seq<Expression> arguments() {
        return arguments;
    }

    Seq<Attribute> results() {
        return results;
    }

    LogicalPlan child() {
        return child;
    }

    /** Returns the attribute that is the result of a call, or {@code null}. */
    Attribute resultOf(ModelCall call) {
        int kind = computesInputOf(call) ? pass.kinds.indexOf(call.kind()) : -1;
        return kind >= 0 ? results.apply(kind) : null;
    }

    /** Returns whether a call is of this model and these arguments. */
    boolean computesInputOf(ModelCall call) {
        boolean same = pass.model.computesAs(call.model()) && arguments.size() == call.children().size();
        for (int i = 0; same && i < arguments.size(); i++) {
            same = arguments.apply(i).semanticEquals(call.children().apply(i));
        }
        return same;
    }

    /** Returns the same plan with one more result. */
    ScoredPlan with(ModelCall call) {
        List<Output.Kind> kinds = new ArrayList<>(pass.kinds);
        kinds.add(call.kind());
        return new ScoredPlan(new Pass(pass.model, pass.columns, kinds), arguments, Plans.join(results,
                Plans.<Attribute>seq(List.of(call.result()))), child);
    }

    @Override
    public Seq<Attribute> output() {
        return Plans.join(child.output(), results);
    }

    @Override
    public AttributeSet producedAttributes() {
        return Plans.set(results);
    }

    @Override
    public Seq<LogicalPlan> children() {
        return Plans.seq(List.of(child));
    }

    @Override
    public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> replaced) {
        return new ScoredPlan(pass, arguments, results, replaced.head());
    }

    /** Overridden because Spark copies by reflection, which needs a public class. */
    @Override
    @SuppressWarnings("unchecked")
    public LogicalPlan makeCopy(Object[] elements) {
        return new ScoredPlan((Pass) elements[0], (Seq<Expression>) elements[1], (Seq<Attribute>) elements[2],
                (LogicalPlan) elements[3]);
    }

    @Override
    public LogicalPlan clone() {
        LogicalPlan copy = new ScoredPlan(pass, arguments, results, child.clone());
        copy.copyTagsFrom(this);
        return copy;
    }

    @Override
    public int productArity() {
        return 4;
    }

    @Override
    public Object productElement(int n) {
        return switch (n) {
            case 0 -> pass;
            case 1 -> arguments;
            case 2 -> results;
            default -> child;
        };
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof ScoredPlan;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ScoredPlan plan && pass.computesAs(plan.pass) && arguments.equals(plan.arguments)
                && results.equals(plan.results) && child.equals(plan.child);
    }

    @Override
    public int hashCode() {
        return java.util.Objects.hash(arguments, results, child);
    }

    @Override
    public String simpleString(int maxFields) {
        return "ScoredBatches " + results.mkString("[", ", ", "]") + " of " + arguments.mkString("[", ", ", "]");
    }
}
