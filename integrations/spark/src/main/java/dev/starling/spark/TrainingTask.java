package dev.starling.spark;

import dev.starling.distributed.Coordinator;
import dev.starling.distributed.CoordinatorThread;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.ServerConfig;
import dev.starling.errors.StarlingException;
import dev.starling.tensor.Threads;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.Utils;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * A task of the barrier stage: reads its partition, meets the others, and trains or serves. Rank 0 opens the group's
 * coordinator, and Spark's {@code allGather} tells the others where it is; after that no data pass through Spark.
 *
 * <p>What cannot be cured by a restart (bad rows, a model that does not fit, a loss that is not finite) ends all tasks
 * in the normal way, with the message as the result; only what may be cured, such as a lost peer, fails the task.
 */
final class TrainingTask extends AbstractFunction1<Iterator<InternalRow>, Iterator<byte[]>> implements Serializable {
    /** What a result begins with. */
    static final byte WEIGHTS = 'W';
    static final byte PROBLEM = 'P';
    private static final long serialVersionUID = 1L;
    private static final String FINE = "";
    private static final int ROWS_BETWEEN_LOOKS = 1024;

    private final TrainingJob job;

    TrainingTask(TrainingJob job) {
        this.job = job;
    }

    @Override
    public Iterator<byte[]> apply(Iterator<InternalRow> partition) {
        BarrierTaskContext context = BarrierTaskContext.get();
        Path directory = null;
        try {
            directory = Files.createTempDirectory(Path.of(Utils.getLocalDir(SparkEnv.get().conf())), "starling-");
            byte[] result = run(context, partition, directory);
            List<byte[]> results = result == null ? List.of() : List.of(result);
            return CollectionConverters.asScala(results.iterator());
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        } finally {
            delete(directory);
        }
    }

    private byte[] run(BarrierTaskContext context, Iterator<InternalRow> partition, Path directory) {
        int rank = context.partitionId();
        try (RowCache rows = new RowCache(job.columns().fields(), job.cacheBytes(), directory)) {
            String problem = ExecutorFlags.missing();
            problem = problem != null ? problem : fill(rows, context, partition);
            String[] heard = context.allGather(problem == null ? Integer.toString(rows.size()) : '!' + problem);
            problem = first(heard);
            if (problem != null) {
                return rank == 0 ? result(PROBLEM, problem.getBytes(StandardCharsets.UTF_8)) : null;
            }
            int[] sizes = Arrays.stream(heard).mapToInt(Integer::parseInt).toArray();
            return train(context, rows, sizes, directory);
        }
    }

    /** Returns the first problem of any task, or {@code null}. */
    private static String first(String[] heard) {
        return Arrays.stream(heard).filter(text -> text.startsWith("!")).map(text -> text.substring(1)).findFirst()
                .orElse(null);
    }

    private static byte[] result(byte kind, byte[] content) {
        byte[] result = new byte[content.length + 1];
        result[0] = kind;
        System.arraycopy(content, 0, result, 1, content.length);
        return result;
    }

    /** Copies the partition into memory; returns what is wrong with it, or {@code null}. */
    private String fill(RowCache rows, BarrierTaskContext context, Iterator<InternalRow> partition) {
        RowReader reader = new RowReader(job.columns());
        RowName name = new RowName(context.partitionId());
        try {
            while (partition.hasNext()) {
                reader.read(partition.next(), rows.chunk(), rows.offset(), name);
                rows.added();
                if (++name.row % ROWS_BETWEEN_LOOKS == 0) {
                    context.killTaskIfInterrupted();
                }
            }
            return null;
        } catch (SparkDataException e) {
            return e.getMessage();
        }
    }

    private byte[] train(BarrierTaskContext context, RowCache rows, int[] sizes, Path directory) {
        int rank = context.partitionId();
        String address = context.getTaskInfos()[rank].address();
        String host = address.substring(0, address.lastIndexOf(':'));
        TransportConfig transport = TransportConfig.of(job.transport(), Secret.ofHex(job.secret())).at(host, 0)
                .directory(directory).silence(job.silence());
        boolean reforms = job.strategy() instanceof Strategy.Gossip
                || job.strategy() instanceof Strategy.Servers servers && !servers.isSynchronous();
        try (CoordinatorThread coordinator = rank > 0 ? null : CoordinatorThread.start(Coordinator.open(transport,
                job.tasks(), reforms ? Coordinator.OnLoss.REFORM : Coordinator.OnLoss.END, 1, job.patience()))) {
            String meeting = context.allGather(coordinator == null ? FINE : coordinator.address())[0];
            byte[] weights = null;
            String problem = FINE;
            RuntimeException failure = null;
            try {
                GroupConfig config = GroupConfig.of(transport, meeting).wish(rank).joining(job.patience())
                        .patience(job.patience());
                try (Group group = Group.join(config)) {
                    weights = Threads.with(context.cpus(), () -> work(context, group, rows, sizes, directory));
                }
            } catch (TaskKilledException e) {
                throw e;
            } catch (DistributedException | TransportException e) {
                failure = e;
            } catch (StarlingException | IllegalArgumentException e) {
                problem = "!rank " + rank + ": " + e.getMessage();
            }
            context.killTaskIfInterrupted();
            problem = first(context.allGather(problem));
            if (problem != null) {
                return rank == 0 ? result(PROBLEM, problem.getBytes(StandardCharsets.UTF_8)) : null;
            }
            if (failure != null) {
                throw failure;
            }
            return weights == null ? null : result(WEIGHTS, weights);
        }
    }

    /** Serves, or trains; returns the weights on rank 0. */
    private byte[] work(BarrierTaskContext context, Group group, RowCache rows, int[] sizes, Path directory) {
        if (group.rank() >= job.workers()) {
            ParameterServer.serve(group, group.rank() - job.workers(), ServerConfig.inMemory());
            return null;
        }
        return new Worker(job, context, group, rows, Arrays.copyOf(sizes, job.workers()), directory).train();
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
