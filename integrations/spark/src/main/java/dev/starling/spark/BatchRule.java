package dev.starling.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;

/**
 * An optimiser rule that makes models compute batches: it moves each {@link ModelCall} that is computed for every row
 * out of its expression into a {@link ScoredPlan} below, as Spark does with Python functions. Equal calls are computed
 * once, and all calls of a model in one pass. In a filter, conditions without a model are evaluated first.
 */
final class BatchRule extends Rule<LogicalPlan> {
    private static final long serialVersionUID = 1L;

    private BatchRule() {
    }

    /** Adds the rule and its physical strategy to a session, unless it has them already. */
    static void install(SparkSession session) {
        synchronized (BatchRule.class) {
            var methods = session.experimental();
            if (Plans.list(methods.extraOptimizations()).stream().noneMatch(BatchRule.class::isInstance)) {
                // Pruned again, so that scans read no columns which the rewritten plan does not use.
                methods.extraOptimizations_$eq(Plans.join(methods.extraOptimizations(),
                        Plans.<Rule<LogicalPlan>>seq(List.of(new BatchRule(), ColumnPruning$.MODULE$))));
                methods.extraStrategies_$eq(Plans.join(methods.extraStrategies(),
                        Plans.<SparkStrategy>seq(List.of(new Batches()))));
            }
        }
    }

    private static final class Batches extends SparkStrategy {
        private static final long serialVersionUID = 1L;

        @Override
        public Seq<SparkPlan> apply(LogicalPlan plan) {
            return plan instanceof ScoredPlan scored ? Plans.seq(List.of(new ScoredExec(scored.pass(),
                    scored.arguments(), scored.results(), planLater(scored.child())))) : Plans.seq(List.of());
        }
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        if (plan instanceof Subquery subquery && subquery.correlated()) {
            return plan; // Spark rewrites it to a join, to which the rule is applied later
        }
        LogicalPlan below = plan.mapChildren(this::apply);
        return switch (below) {
            case Project _, Filter _, Aggregate _, Join _, Sort _, Window _, Generate _, RepartitionByExpression _ ->
                    extract(below);
            default -> below;
        };
    }

    private static LogicalPlan extract(LogicalPlan plan) {
        List<ModelCall> calls = new ArrayList<>();
        evaluatedPerRow(plan).forEach(e -> collect(e, calls));
        calls.removeIf(call -> Plans.list(plan.children()).stream().noneMatch(child -> fits(call, child)));
        if (calls.isEmpty()) {
            return plan;
        }
        LogicalPlan ordered = plan instanceof Filter filter ? modelsLast(filter) : plan;
        Map<ModelCall, Attribute> results = new HashMap<>();
        List<LogicalPlan> children = new ArrayList<>();
        for (LogicalPlan child : Plans.list(ordered.children())) {
            LogicalPlan scored = child;
            for (ModelCall call : calls) {
                if (!results.containsKey(key(call)) && fits(call, child)) {
                    scored = withResult(scored, call, results);
                }
            }
            children.add(scored);
        }
        LogicalPlan replaced = ordered.withNewChildren(Plans.seq(children)).mapExpressions(e ->
                ordered instanceof Aggregate aggregate ? replaceBelow(e, aggregate, results) : replace(e, results));
        // Then the calls whose arguments are results of calls extracted here.
        LogicalPlan whole = extract(replaced);
        return whole.output().size() == plan.output().size() ? whole : new Project(attributes(plan), whole);
    }

    /**
     * Returns the expressions that a plan evaluates for each row of its child. In an aggregate these are the grouping
     * expressions and the aggregate functions; the others are evaluated for each group.
     */
    private static List<Expression> evaluatedPerRow(LogicalPlan plan) {
        if (!(plan instanceof Aggregate aggregate)) {
            return Plans.list(plan.expressions());
        }
        List<Expression> found = new ArrayList<>(Plans.list(aggregate.groupingExpressions()));
        Plans.list(aggregate.aggregateExpressions()).forEach(e -> functions((Expression) e, found));
        return found;
    }

    private static void functions(Expression expression, List<Expression> found) {
        if (expression instanceof AggregateExpression) {
            found.add(expression);
        } else {
            Plans.list(expression.children()).forEach(e -> functions(e, found));
        }
    }

    /** Replaces calls, except those that an aggregate evaluates for each group, which has no result of a row. */
    private static Expression replaceBelow(Expression expression, Aggregate aggregate,
            Map<ModelCall, Attribute> results) {
        if (expression instanceof AggregateExpression || Plans.list(aggregate.groupingExpressions()).stream()
                .anyMatch(g -> g.semanticEquals(expression))) {
            return replace(expression, results);
        }
        return expression.mapChildren(e -> replaceBelow(e, aggregate, results));
    }

    @SuppressWarnings("unchecked")
    private static Seq<NamedExpression> attributes(LogicalPlan plan) {
        return (Seq<NamedExpression>) (Seq<?>) plan.output();
    }

    private static ModelCall key(ModelCall call) {
        return (ModelCall) call.canonicalized();
    }

    /** Returns a child that also computes the result of a call, whose attribute is added to {@code results}. */
    private static LogicalPlan withResult(LogicalPlan child, ModelCall call, Map<ModelCall, Attribute> results) {
        LogicalPlan reused = reuse(child, call, results);
        if (reused != null) {
            return reused;
        }
        Attribute result = call.result();
        results.put(key(call), result);
        return new ScoredPlan(new ScoredPlan.Pass(call.model(), call.columns(), List.of(call.kind())), call.children(),
                Plans.seq(List.of(result)), child);
    }

    /** Returns the plan with the result added to its pass, which may be below filters; {@code null} without one. */
    private static LogicalPlan reuse(LogicalPlan plan, ModelCall call, Map<ModelCall, Attribute> results) {
        if (plan instanceof ScoredPlan scored && scored.computesInputOf(call)) {
            ScoredPlan with = scored.resultOf(call) == null ? scored.with(call) : scored;
            results.put(key(call), with.resultOf(call));
            return with;
        } else if (!(plan instanceof ScoredPlan) && !(plan instanceof Filter) && !(plan instanceof Project project
                && Plans.list(project.projectList()).stream().allMatch(Attribute.class::isInstance))) {
            return null;
        }
        LogicalPlan child = reuse(plan.children().head(), call, results);
        if (child == null) {
            return null;
        }
        Attribute result = results.get(key(call));
        return plan instanceof Project project && !project.outputSet().contains(result)
                ? new Project(Plans.join(project.projectList(), Plans.<NamedExpression>seq(List.of(result))), child)
                : plan.withNewChildren(Plans.seq(List.of(child)));
    }

    /** Splits a filter, so that conditions without a model are evaluated before the model. */
    private static LogicalPlan modelsLast(Filter filter) {
        List<Expression> with = new ArrayList<>();
        List<Expression> without = new ArrayList<>();
        if (filter.condition().deterministic()) {
            split(filter.condition(), with, without);
        }
        if (with.isEmpty() || without.isEmpty()) {
            return filter;
        }
        return new Filter(with.stream().reduce(And::new).orElseThrow(),
                new Filter(without.stream().reduce(And::new).orElseThrow(), filter.child()));
    }

    private static void split(Expression condition, List<Expression> with, List<Expression> without) {
        if (condition instanceof And and) {
            split(and.left(), with, without);
            split(and.right(), with, without);
        } else {
            (condition.exists(e -> e instanceof ModelCall) ? with : without).add(condition);
        }
    }

    private static boolean fits(ModelCall call, LogicalPlan child) {
        return call.references().subsetOf(child.outputSet());
    }

    /** Collects the calls that are evaluated for every row; of nested calls the innermost. */
    private static void collect(Expression expression, List<ModelCall> found) {
        if (expression instanceof LambdaFunction) {
            return; // evaluated for each element of an array
        }
        Seq<Expression> always = expression instanceof ConditionalExpression conditional
                ? conditional.alwaysEvaluatedInputs() : expression.children();
        int before = found.size();
        Plans.list(always).forEach(e -> collect(e, found));
        if (expression instanceof ModelCall call && found.size() == before && call.deterministic()
                && !call.exists(e -> e instanceof NamedLambdaVariable || e instanceof AggregateExpression
                || e instanceof WindowExpression || e instanceof PlanExpression<?>)) {
            found.add(call);
        }
    }

    private static Expression replace(Expression expression, Map<ModelCall, Attribute> results) {
        if (expression instanceof ModelCall call && results.get(key(call)) instanceof Attribute result) {
            return result;
        }
        return expression.mapChildren(e -> replace(e, results));
    }
}
