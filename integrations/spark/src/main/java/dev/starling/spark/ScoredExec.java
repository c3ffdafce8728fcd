package dev.starling.spark;

import dev.starling.nn.Layer;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Objects;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** Computes a {@link ScoredPlan}, a batch of rows at a time; rows keep their order and their partitions. */
@SuppressWarnings("serial") // the sequences in Spark's plans are serialisable, but their static type is not
final class ScoredExec extends SparkPlan {
    private static final long serialVersionUID = 1L;
    private static final int MAX_BATCH_ROWS = 256;
    /** Limit of the memory of a batch's inputs, and of its rows; a batch of large rows has fewer of them. */
    private static final long MAX_BATCH_BYTES = 128L << 20;

    private final ScoredPlan.Pass pass;
    private final Seq<Expression> arguments;
    private final Seq<Attribute> results;
    private final SparkPlan child;

    ScoredExec(ScoredPlan.Pass pass, Seq<Expression> arguments, Seq<Attribute> results, SparkPlan child) {
        this.pass = pass;
        this.arguments = arguments;
        this.results = results;
        this.child = child;
    }

    @Override
    public RDD<InternalRow> doExecute() {
        return child.execute().mapPartitions(new OfPartition(pass, arguments, child.output(), output()), true,
                ClassTag$.MODULE$.<InternalRow>apply(InternalRow.class));
    }

    @SuppressWarnings("serial")
    private static final class OfPartition extends AbstractFunction1<scala.collection.Iterator<InternalRow>,
            scala.collection.Iterator<InternalRow>> implements Serializable {
        private static final long serialVersionUID = 1L;
        private final ScoredPlan.Pass pass;
        private final Seq<Expression> arguments;
        private final Seq<Attribute> input;
        private final Seq<Attribute> output;

        OfPartition(ScoredPlan.Pass pass, Seq<Expression> arguments, Seq<Attribute> input, Seq<Attribute> output) {
            this.pass = pass;
            this.arguments = arguments;
            this.input = input;
            this.output = output;
        }

        /** Returns the indices of the arguments in a row, or {@code null} if one of them must be computed. */
        private int[] places() {
            int[] places = new int[arguments.size()];
            for (int i = 0; i < places.length; i++) {
                places[i] = arguments.apply(i) instanceof Attribute attribute
                        ? Plans.list(input).stream().map(Attribute::exprId).toList().indexOf(attribute.exprId()) : -1;
                if (places[i] < 0) {
                    return null;
                }
            }
            return places;
        }

        /** Returns the index of the column {@code path} of Spark's binary-file source, or -1 if there is none. */
        private int path() {
            return Plans.list(input).stream().map(a -> a.name() + ' ' + a.dataType().simpleString()).toList()
                    .indexOf("path string");
        }

        @Override
        @SuppressWarnings("unchecked")
        public scala.collection.Iterator<InternalRow> apply(scala.collection.Iterator<InternalRow> rows) {
            return CollectionConverters.asScala(new Batches(pass, places(), path(),
                    UnsafeProjection.create(arguments, input),
                    UnsafeProjection.create((Seq<Expression>) (Seq<?>) output, output),
                    CollectionConverters.asJava(rows)));
        }
    }

    /** Reads a batch ahead, scores it, and returns its rows one by one. Confined to a task's thread. */
    private static final class Batches implements Iterator<InternalRow> {
        private final Scorer scorer;
        private final ScoredModel model;
        private final int kinds;
        private final int[] places;
        private final boolean areColumns;
        private final int path;
        private final UnsafeProjection inputs;
        private final UnsafeProjection whole;
        private final Iterator<InternalRow> rows;
        private final RowName name;
        private final List<InternalRow> batch = new ArrayList<>(MAX_BATCH_ROWS);
        /** The part of a file from which each row of the batch comes. */
        private final List<InputBlock> blocks = new ArrayList<>(MAX_BATCH_ROWS);
        /** The part that the rows are read from. */
        private InputBlock reading = InputBlock.current();
        /** The part that Spark's functions see. */
        private InputBlock shown = reading;
        private final GenericInternalRow added;
        private final JoinedRow joined = new JoinedRow();
        private Layer layer;
        private int next;

        Batches(ScoredPlan.Pass pass, int[] places, int path, UnsafeProjection inputs, UnsafeProjection whole,
                Iterator<InternalRow> rows) {
            scorer = new Scorer(pass.model(), pass.columns(), pass.kinds(), Math.clamp(MAX_BATCH_BYTES
                    / RowReader.bytes(pass.columns()), 1, MAX_BATCH_ROWS));
            model = pass.model();
            kinds = pass.kinds().size();
            areColumns = places != null;
            this.path = path;
            this.places = areColumns ? places : java.util.stream.IntStream.range(0, pass.columns().inputs().size())
                    .toArray();
            this.inputs = inputs;
            this.whole = whole;
            this.rows = rows;
            added = new GenericInternalRow(new Object[kinds]);
            TaskContext context = TaskContext.get();
            name = new RowName(context.partitionId());
            layer = model.lease();
            context.addTaskCompletionListener((TaskCompletionListener) _ -> release());
        }

        private void release() {
            if (layer != null) {
                layer = null;
                model.release();
            }
        }

        @Override
        public boolean hasNext() {
            if (next < batch.size()) {
                return true;
            }
            show(reading);
            if (!rows.hasNext()) {
                reading = InputBlock.current();
                shown = reading;
                return false;
            }
            batch.clear();
            blocks.clear();
            scorer.clear();
            next = 0;
            long held = 0;
            while (!scorer.isFull() && held < MAX_BATCH_BYTES && rows.hasNext()) {
                InternalRow row = rows.next();
                try {
                    scorer.add(areColumns ? row : inputs.apply(row), places, name);
                } catch (SparkDataException e) {
                    throw path < 0 || row.isNullAt(path) ? e : new SparkDataException(e.getMessage() + " (path "
                            + row.getUTF8String(path) + ")");
                }
                InternalRow copy = row.copy();
                held += copy instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 0;
                batch.add(copy);
                InputBlock block = InputBlock.current();
                reading = block.equals(reading) ? reading : block;
                blocks.add(reading);
                name.row++;
            }
            reading = InputBlock.current();
            shown = reading;
            scorer.compute(layer);
            return true;
        }

        /** Makes Spark's functions see the part of a file that a row comes from, not that of the row read last. */
        private void show(InputBlock block) {
            if (block != shown) {
                block.restore();
                shown = block;
            }
        }

        @Override
        public InternalRow next() {
            if (!hasNext()) {
                throw new NoSuchElementException("the partition has no further row");
            }
            for (int i = 0; i < kinds; i++) {
                added.update(i, scorer.result(next, i));
            }
            show(blocks.get(next));
            return whole.apply(joined.apply(batch.get(next++), added));
        }
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
    public Partitioning outputPartitioning() {
        return child.outputPartitioning();
    }

    @Override
    public Seq<SortOrder> outputOrdering() {
        return child.outputOrdering();
    }

    @Override
    public Seq<SparkPlan> children() {
        return Plans.seq(List.of(child));
    }

    @Override
    public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> replaced) {
        return new ScoredExec(pass, arguments, results, replaced.head());
    }

    /** Overridden because Spark copies by reflection, which needs a public class. */
    @Override
    @SuppressWarnings("unchecked")
    public SparkPlan makeCopy(Object[] elements) {
        return new ScoredExec((ScoredPlan.Pass) elements[0], (Seq<Expression>) elements[1],
                (Seq<Attribute>) elements[2], (SparkPlan) elements[3]);
    }

    @Override
    public SparkPlan clone() {
        SparkPlan copy = new ScoredExec(pass, arguments, results, child.clone());
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
        return other instanceof ScoredExec;
    }

    /** Spark computes equal plans only once if their results pass through an exchange. */
    @Override
    public boolean equals(Object other) {
        return other instanceof ScoredExec exec && pass.computesAs(exec.pass) && arguments.equals(exec.arguments)
                && results.equals(exec.results) && child.equals(exec.child);
    }

    @Override
    public int hashCode() {
        return Objects.hash(arguments, results, child);
    }

    @Override
    public String simpleString(int maxFields) {
        return "ScoredBatches " + results.mkString("[", ", ", "]") + " of " + arguments.mkString("[", ", ", "]");
    }
}
