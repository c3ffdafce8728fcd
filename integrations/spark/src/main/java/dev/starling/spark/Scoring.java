package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.spark.Columns.Column;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import java.io.Serializable;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Adds a model's columns to rows, a batch at a time.
 *
 * @param model a safetensors file with its description
 * @param digest of those bytes
 * @param columns that the model takes
 */
record Scoring(Broadcast<byte[]> model, String digest, Columns columns, List<Output> outputs) implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int BATCH = 256;

    Dataset<Row> over(Dataset<Row> frame) {
        StructType schema = frame.schema();
        int[] places = columns.inputs().stream().mapToInt(c -> schema.fieldIndex(c.name())).toArray();
        StructType wider = schema;
        for (Output output : outputs) {
            if (List.of(schema.fieldNames()).contains(output.column())) {
                throw new SparkDataException("there is a column \"" + output.column() + "\" already; name another");
            }
            wider = wider.add(new StructField(output.column(), output.kind().type(), false,
                    org.apache.spark.sql.types.Metadata.empty()));
        }
        if (frame.isStreaming()) {
            return streaming(frame, schema, wider, places);
        }
        return ((SparkSession) frame.sparkSession()).internalCreateDataFrame(SparkColumns.rows(frame).mapPartitions(
                new OfPartition(this, places), true, ClassTag$.MODULE$.<InternalRow>apply(InternalRow.class)), wider,
                false);
    }

    /** A stream has no rows of its own before it is started: goes by way of Spark's typed operators. */
    private Dataset<Row> streaming(Dataset<Row> frame, StructType schema, StructType wider, int[] places) {
        return frame.mapPartitions((org.apache.spark.api.java.function.MapPartitionsFunction<Row, Row>) rows -> {
            ExpressionEncoder<Row> narrow = ExpressionEncoder.apply(schema).resolveAndBind(
                    ExpressionEncoder.apply(schema).resolveAndBind$default$1(),
                    ExpressionEncoder.apply(schema).resolveAndBind$default$2());
            ExpressionEncoder<Row> wide = ExpressionEncoder.apply(wider).resolveAndBind(
                    ExpressionEncoder.apply(wider).resolveAndBind$default$1(),
                    ExpressionEncoder.apply(wider).resolveAndBind$default$2());
            ExpressionEncoder.Serializer<Row> serializer = narrow.createSerializer();
            ExpressionEncoder.Deserializer<Row> deserializer = wide.createDeserializer();
            org.apache.spark.sql.catalyst.expressions.UnsafeProjection project =
                    org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(wider);
            Iterator<InternalRow> internal = new Iterator<>() {
                @Override
                public boolean hasNext() {
                    return rows.hasNext();
                }

                @Override
                public InternalRow next() {
                    return serializer.apply(rows.next());
                }
            };
            Iterator<InternalRow> scored = new Batches(this, places, internal);
            return new Iterator<Row>() {
                @Override
                public boolean hasNext() {
                    return scored.hasNext();
                }

                @Override
                public Row next() {
                    return deserializer.apply(project.apply(scored.next()));
                }
            };
        }, Encoders.row(wider));
    }

    private static final class OfPartition extends AbstractFunction1<scala.collection.Iterator<InternalRow>,
            scala.collection.Iterator<InternalRow>> implements Serializable {
        private static final long serialVersionUID = 1L;
        private final Scoring scoring;
        private final int[] places;

        OfPartition(Scoring scoring, int[] places) {
            this.scoring = scoring;
            this.places = places;
        }

        @Override
        public scala.collection.Iterator<InternalRow> apply(scala.collection.Iterator<InternalRow> rows) {
            return CollectionConverters.asScala(new Batches(scoring, places, CollectionConverters.asJava(rows)));
        }
    }

    /** Computes rows to tensors' memory, and results back to rows. Confined to a task's thread. */
    private static final class Batches implements Iterator<InternalRow> {
        private final Scoring scoring;
        private final int[] places;
        private final Iterator<InternalRow> rows;
        private final RowReader reader;
        private final RowName name;
        private final MemorySegment input;
        private final long rowBytes;
        private final List<InternalRow> batch = new ArrayList<>(BATCH);
        private final Object[][] results;
        private final JoinedRow joined = new JoinedRow();
        private Layer model;
        private int next;

        Batches(Scoring scoring, int[] places, Iterator<InternalRow> rows) {
            this.scoring = scoring;
            this.places = places;
            this.rows = rows;
            reader = new RowReader(scoring.columns);
            rowBytes = RowReader.bytes(scoring.columns);
            TaskContext context = TaskContext.get();
            name = new RowName(context == null ? 0 : context.partitionId());
            input = Arena.ofAuto().allocate(rowBytes * BATCH, 64);
            results = new Object[scoring.outputs.size()][];
            model = ExecutorModels.lease(scoring.digest, () -> scoring.model.value());
            if (context != null) {
                context.addTaskCompletionListener((TaskCompletionListener) _ -> release());
            }
        }

        private void release() {
            if (model != null) {
                model = null;
                ExecutorModels.release(scoring.digest);
            }
        }

        @Override
        public boolean hasNext() {
            if (next < batch.size()) {
                return true;
            }
            if (rows.hasNext()) {
                compute();
                return true;
            }
            return false;
        }

        private void compute() {
            batch.clear();
            next = 0;
            while (batch.size() < BATCH && rows.hasNext()) {
                InternalRow row = rows.next().copy();
                reader.read(row, places, input, batch.size() * rowBytes, name);
                batch.add(row);
                name.row++;
            }
            TaskContext context = TaskContext.get();
            Threads.with(context == null ? 1 : context.cpus(), () -> {
                try (Scope scope = Scope.open("predict")) {
                    Shape shape = Shape.of(scoring.columns.shape()).insert(0, batch.size());
                    Tensor x = Tensor.wrap(input, DType.F32, shape.dims());
                    Tensor y = Mode.inference(() -> model.forward(x));
                    Tensor flat = y.reshape(batch.size(), -1);
                    for (int i = 0; i < results.length; i++) {
                        results[i] = scoring.outputs.get(i).kind().of(flat);
                    }
                    return null;
                }
            });
        }

        @Override
        public InternalRow next() {
            if (!hasNext()) {
                throw new NoSuchElementException("the partition is over");
            }
            Object[] added = new Object[results.length];
            for (int i = 0; i < results.length; i++) {
                added[i] = results[i][next];
            }
            return joined.apply(batch.get(next++), new GenericInternalRow(added));
        }
    }

    /** Returns the names of the columns that the model takes. */
    List<String> inputNames() {
        return columns.inputs().stream().map(Column::name).toList();
    }
}
