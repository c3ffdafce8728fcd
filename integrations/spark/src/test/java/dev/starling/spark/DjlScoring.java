package dev.starling.spark;

import ai.djl.Device;
import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.Block;
import ai.djl.nn.Blocks;
import ai.djl.nn.Parameter;
import ai.djl.nn.SequentialBlock;
import ai.djl.nn.convolutional.Conv2d;
import ai.djl.nn.core.Linear;
import ai.djl.nn.norm.BatchNorm;
import ai.djl.nn.pooling.Pool;
import ai.djl.training.ParameterStore;
import ai.djl.training.initializer.NormalInitializer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The networks of {@link ScoringSpeedTest} in DJL's PyTorch engine, batches of 256 rows in {@code mapPartitions}. */
public final class DjlScoring implements BiFunction<Dataset<Row>, Boolean, Dataset<Row>> {
    private static final int BATCH = 256;

    /** Called by reflection. */
    public DjlScoring() {
    }

    @Override
    public Dataset<Row> apply(Dataset<Row> frame, Boolean isDense) {
        boolean dense = isDense;
        return frame.mapPartitions((MapPartitionsFunction<Row, Row>) rows -> score(rows, dense),
                Encoders.row(new StructType().add("id", DataTypes.LongType).add("c", DataTypes.IntegerType)));
    }

    private static SequentialBlock network(boolean dense) {
        SequentialBlock block = new SequentialBlock();
        if (dense) {
            return block.add(Linear.builder().setUnits(1024).build()).add(Activation.reluBlock())
                    .add(Linear.builder().setUnits(1024).build()).add(Activation.reluBlock())
                    .add(Linear.builder().setUnits(10).build());
        }
        for (int channels : new int[] {16, 32}) {
            block.add(Conv2d.builder().setKernelShape(new Shape(3, 3)).optPadding(new Shape(1, 1)).optBias(false)
                    .setFilters(channels).build()).add(BatchNorm.builder().build()).add(Activation.reluBlock())
                    .add(Pool.maxPool2dBlock(new Shape(2, 2), new Shape(2, 2)));
        }
        return block.add(Blocks.batchFlattenBlock()).add(Linear.builder().setUnits(64).build())
                .add(Activation.reluBlock()).add(Linear.builder().setUnits(10).build());
    }

    private static Iterator<Row> score(Iterator<Row> rows, boolean dense) {
        System.setProperty("ai.djl.offline", "true");
        System.setProperty("OPT_OUT_TRACKING", "true");
        System.setProperty("ai.djl.pytorch.num_threads", "1");
        System.setProperty("ai.djl.pytorch.num_interop_threads", "1");
        NDManager manager = Engine.getEngine("PyTorch").newBaseManager(Device.cpu());
        Shape shape = dense ? new Shape(BATCH, 784) : new Shape(BATCH, 1, 28, 28);
        Block block = network(dense);
        block.setInitializer(new NormalInitializer(), Parameter.Type.WEIGHT);
        block.initialize(manager, DataType.FLOAT32, shape);
        ParameterStore parameters = new ParameterStore(manager, false);
        return new Iterator<>() {
            private final List<Row> scored = new ArrayList<>();
            private int next;

            @Override
            public boolean hasNext() {
                if (next < scored.size()) {
                    return true;
                }
                if (!rows.hasNext()) {
                    manager.close();
                    return false;
                }
                scored.clear();
                next = 0;
                List<Row> batch = new ArrayList<>();
                float[] values = new float[BATCH * 784];
                while (batch.size() < BATCH && rows.hasNext()) {
                    Row row = rows.next();
                    List<Float> pixels = row.getList(1);
                    for (int i = 0; i < 784; i++) {
                        values[batch.size() * 784 + i] = pixels.get(i);
                    }
                    batch.add(row);
                }
                try (NDManager step = manager.newSubManager()) {
                    NDArray x = step.create(values, shape);
                    long[] classes = block.forward(parameters, new NDList(x), false).singletonOrThrow().argMax(1)
                            .toLongArray();
                    for (int i = 0; i < batch.size(); i++) {
                        scored.add(RowFactory.create(batch.get(i).getLong(0), (int) classes[i]));
                    }
                }
                return true;
            }

            @Override
            public Row next() {
                return scored.get(next++);
            }
        };
    }
}
