package dev.starling.spark;

import dev.starling.nn.Layer;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * A model's result as a SQL expression. {@link BatchRule} moves it into a {@link ScoredPlan}, which computes batches;
 * where that is not possible, as in a branch of {@code CASE}, {@link #eval} computes row by row.
 *
 * <p>It is marked {@link Unevaluable}, as Python functions are, only to keep Spark's optimiser from running the model
 * on the driver.
 */
@SuppressWarnings("serial") // the sequences in Spark's plans are serialisable, but their static type is not
final class ModelCall extends Expression implements Unevaluable, CodegenFallback, UserDefinedExpression,
        Serializable {
    private static final long serialVersionUID = 1L;

    private final String function;
    private final ScoredModel model;
    private final Output.Kind kind;
    private final List<String> names;
    private final Seq<Expression> arguments;
    private transient Scorer scorer;
    private transient RowName rowName;

    private ModelCall(String function, ScoredModel model, Output.Kind kind, List<String> names,
            Seq<Expression> arguments) {
        this.function = function;
        this.model = model;
        this.kind = kind;
        this.names = names;
        this.arguments = arguments;
    }

    /** Creates a call; messages name its arguments by their columns. */
    static ModelCall of(String function, ScoredModel model, Output.Kind kind, List<Expression> arguments) {
        List<String> names = arguments.stream().map(a -> a instanceof NamedExpression n ? n.name() : a.sql()).toList();
        return new ModelCall(function, model, kind, names, Plans.seq(arguments));
    }

    ScoredModel model() {
        return model;
    }

    Output.Kind kind() {
        return kind;
    }

    /** Returns a new attribute for the result. */
    Attribute result() {
        return new AttributeReference(function, dataType(), nullable(), Metadata.empty(), NamedExpression.newExprId(),
                Plans.seq(List.of()));
    }

    /** Returns the columns that map the arguments to the model's input. */
    Columns columns() {
        return Columns.ofArguments(model.metadata(), names, Plans.list(arguments).stream().map(Expression::dataType)
                .toList());
    }

    @Override
    public TypeCheckResult checkInputDataTypes() {
        try {
            columns();
            return TypeCheckResult.TypeCheckSuccess$.MODULE$;
        } catch (SparkDataException e) {
            return new TypeCheckResult.TypeCheckFailure(function + ": " + e.getMessage());
        }
    }

    @Override
    public boolean foldable() {
        return false;
    }

    @Override
    public boolean nullable() {
        return model.isNullable();
    }

    @Override
    public DataType dataType() {
        return kind.type();
    }

    @Override
    public Object eval(InternalRow input) {
        if (scorer == null) {
            scorer = new Scorer(model, columns(), List.of(kind), 1);
            TaskContext context = TaskContext.get();
            rowName = new RowName(context == null ? 0 : context.partitionId());
        }
        Object[] values = new Object[arguments.size()];
        int[] places = new int[values.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = arguments.apply(i).eval(input);
            places[i] = i;
        }
        scorer.clear();
        scorer.add(new GenericInternalRow(values), places, rowName);
        rowName.row++;
        Layer layer = model.lease();
        try {
            scorer.compute(layer);
        } finally {
            model.release();
        }
        return scorer.result(0, 0);
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.super.doGenCode(context, code);
    }

    @Override
    public Seq<Expression> children() {
        return arguments;
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> replaced) {
        return new ModelCall(function, model, kind, names, replaced);
    }

    @Override
    public String name() {
        return function;
    }

    @Override
    public String prettyName() {
        return function;
    }

    @Override
    public int productArity() {
        return 4;
    }

    @Override
    public Object productElement(int n) {
        return switch (n) {
            case 0 -> function;
            case 1 -> model.digest();
            case 2 -> kind;
            default -> arguments;
        };
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof ModelCall;
    }

    /** Ignores the names, which are for messages only. */
    @Override
    public boolean equals(Object other) {
        return other instanceof ModelCall call && model.computesAs(call.model) && kind == call.kind
                && arguments.equals(call.arguments);
    }

    @Override
    public int hashCode() {
        return Objects.hash(model.digest(), kind, arguments);
    }

    @Override
    public String toString() {
        return function + '(' + arguments.mkString(", ") + ')';
    }
}
