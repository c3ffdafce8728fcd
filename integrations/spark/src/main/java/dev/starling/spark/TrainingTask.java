package dev.starling.spark;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.errors.StarlingException;
import dev.starling.nn.data.SpillingRows;
import dev.starling.nn.train.RunEndedException;
import dev.starling.tensor.Threads;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.TaskInterruptListener;
import org.apache.spark.util.Utils;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * A task: reads its partition, joins the group, and trains or serves. In a barrier stage rank 0 opens the group's
 * coordinator, whose address the others receive by Spark's {@code allGather}; in an elastic run the coordinator is on
 * the driver, and a task that Spark restarts joins as a new member. After that no data pass through Spark.
 *
 * <p>Errors that a restart would repeat (bad rows, a model that does not fit, a loss that is not finite) are thrown as
 * {@link SparkDataException}, by which the driver recognises them.
 */
final class TrainingTask extends AbstractFunction1<Iterator<TaskRows>, Iterator<byte[]>> implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int ROWS_BETWEEN_CHECKS = 1024;
    /** No limit in practice: tasks may read their rows for any time, and Spark ends coordinator and tasks together. */
    private static final Duration JOIN_TIMEOUT = Duration.ofDays(365);
    private static final Duration FIRST_CAUSE_GRACE = Duration.ofSeconds(5);

    private final TrainingJob job;

    TrainingTask(TrainingJob job) {
        this.job = job;
    }

    @Override
    public Iterator<byte[]> apply(Iterator<TaskRows> partition) {
        TaskContext context = job.elastic() == null ? BarrierTaskContext.get() : TaskContext.get();
        Path directory = null;
        try {
            directory = Files.createTempDirectory(Path.of(Utils.getLocalDir(SparkEnv.get().conf())), "starling-");
            byte[] weights = run(context, partition.next(), directory);
            List<byte[]> results = weights == null ? List.of() : List.of(weights);
            return CollectionConverters.asScala(results.iterator());
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        } finally {
            delete(directory);
        }
    }

    private byte[] run(TaskContext context, TaskRows partition, Path directory) {
        String missing = ExecutorFlags.missing();
        if (missing != null) {
            throw new SparkDataException(missing);
        }
        Columns heldOutColumns = job.heldOut() == null ? job.columns() : job.heldOut();
        try (SpillingRows rows = SpillingRows.of(job.columns().fields(), job.cacheBytes(), directory);
                SpillingRows heldOut = SpillingRows.of(job.columns().fields(), job.cacheBytes(), directory)) {
            fill(rows, job.columns(), "row ", context, partition.training());
            fill(heldOut, heldOutColumns, "held-out row ", context, partition.heldOut());
            return switch (context) {
                case BarrierTaskContext barrier -> inBarrier(barrier, rows, heldOut, directory);
                default -> train(context, job.transportAt(SparkEnv.get().blockManager().blockManagerId().host()),
                        job.elastic().coordinator(), rows, heldOut, job.elastic().sizes(), directory);
            };
        }
    }

    /** Copies rows of the partition into memory. */
    private void fill(SpillingRows rows, Columns columns, String what, TaskContext context,
            java.util.Iterator<InternalRow> partition) {
        RowReader reader = new RowReader(columns);
        RowName name = new RowName(what, context.partitionId());
        SpillingRows.Writer<InternalRow, RuntimeException> writer = (row, memory, at) -> reader.read(row, memory, at,
                name);
        while (partition.hasNext()) {
            rows.add(partition.next(), writer);
            if (++name.row % ROWS_BETWEEN_CHECKS == 0) {
                context.killTaskIfInterrupted();
            }
        }
    }

    private byte[] inBarrier(BarrierTaskContext context, SpillingRows rows, SpillingRows heldOut, Path directory) {
        int rank = context.partitionId();
        String address = context.getTaskInfos()[rank].address();
        TransportConfig transport = job.transportAt(address.substring(0, address.lastIndexOf(':')));
        boolean reforms = job.strategy() instanceof Strategy.Gossip
                || job.strategy() instanceof Strategy.Servers servers && !servers.isSynchronous();
        // Spark ends all tasks of a barrier stage with any of them: there is no other side that continues.
        CoordinatorConfig rules = CoordinatorConfig.of(job.tasks(), reforms ? Coordinator.OnLoss.REFORM
                : Coordinator.OnLoss.END).quorum(new Quorum.None()).joinTimeout(JOIN_TIMEOUT);
        try (CoordinatorThread coordinator = rank > 0 ? null : CoordinatorThread.start(Coordinator.open(
                transport.directory(directory), rules))) {
            // One allGather for sizes and address, since each takes Spark a second.
            String[] gathered = context.allGather(rows.size()
                    + (coordinator == null ? "" : ' ' + coordinator.address()));
            int[] sizes = Arrays.stream(gathered).map(text -> text.split(" ")[0]).mapToInt(Integer::parseInt).toArray();
            byte[] weights = train(context, transport, gathered[0].split(" ")[1], rows, heldOut,
                    Arrays.copyOf(sizes, job.workers()), directory);
            if (coordinator != null) {
                coordinator.awaitDone(job.timeout());
            }
            return weights;
        }
    }

    private byte[] train(TaskContext context, TransportConfig transport, String coordinator, SpillingRows rows,
            SpillingRows heldOut, int[] sizes, Path directory) {
        int partition = context.partitionId();
        if (job.strategy() instanceof Strategy.Gossip && sizes[partition] == 0) {
            throw new SparkDataException("partition " + partition + " has no rows; under gossip each worker needs "
                    + "some, because it takes steps of its own: repartition the rows");
        }
        GroupConfig common = GroupConfig.of(transport.directory(directory), coordinator).place(partition, job.workers())
                .timeout(job.timeout());
        // In an elastic run other tasks may still read their rows; the coordinator runs before the first task starts.
        GroupConfig config = job.elastic() == null ? common.joinTimeout(job.timeout())
                : common.joinTimeout(JOIN_TIMEOUT).existing(true);
        try (Group group = Group.join(config, joined -> context.addTaskInterruptListener((TaskInterruptListener)
                (_, reason) -> joined.abort("Spark ends the task: " + reason)))) {
            return Threads.with(context.cpus(), () -> {
                if (context.partitionId() >= job.workers()) {
                    ParameterServer.serve(group, ServerConfig.inMemory());
                    return null;
                }
                return new Worker(job, context, group, rows, heldOut, sizes, directory).train();
            });
        } catch (TaskKilledException e) {
            throw e;
        } catch (RunEndedException | TransportException e) {
            if (e.getCause() instanceof StarlingException cause && !(e instanceof DistributedException)
                    && !(cause instanceof TransportException)) {
                throw failure(context.partitionId(), cause);
            }
            // If another worker failed, its exception has the reason: give Spark time to receive that one first.
            long begin = System.nanoTime();
            while (job.elastic() == null && System.nanoTime() - begin < FIRST_CAUSE_GRACE.toNanos()) {
                context.killTaskIfInterrupted();
                LockSupport.parkNanos(Duration.ofMillis(20).toNanos());
            }
            context.killTaskIfInterrupted();
            throw e;
        } catch (StarlingException | IllegalArgumentException e) {
            throw failure(context.partitionId(), e);
        }
    }

    /**
     * Returns what a task throws for a failure of its own: a {@link SparkDataException}, unless files are the cause,
     * such as a full disk, because another attempt may succeed then, perhaps on another machine.
     */
    static RuntimeException failure(int rank, RuntimeException e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof IOException || cause instanceof TimeoutException) {
                return e;
            }
        }
        return new SparkDataException("rank " + rank + ": " + e.getMessage());
    }

    private static void delete(Path directory) {
        if (directory == null) {
            return;
        }
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException | java.io.UncheckedIOException e) {
            System.getLogger("dev.starling.spark").log(System.Logger.Level.DEBUG, "cannot delete " + directory, e);
        }
    }
}
