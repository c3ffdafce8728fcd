package dev.starling.spark;

import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import java.io.Serializable;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** The driver's side of a run: runs the job, and repeats it where another attempt may succeed. Used by one thread. */
final class DriverRun {
    private static final System.Logger LOG = System.getLogger("dev.starling.spark");
    private static final Duration READING = Duration.ofDays(365);
    /** A task's failure in Spark's message. */
    private static final Pattern PROBLEM = Pattern.compile(Pattern.quote(SparkDataException.class.getName())
            + ": (.*?)(\\R\\tat |\\z)", Pattern.DOTALL);

    private final SparkContext context;
    private final RDD<TaskRows> rows;
    private final TrainingJob job;
    private final LiveProgress live;
    private final Duration slotsWithin;
    /** Weights that tasks returned. */
    private final List<byte[]> arrived = Collections.synchronizedList(new ArrayList<>());
    private volatile JobWatch watch;
    private volatile String problem;
    /** {@code null} in a barrier stage. */
    private volatile CoordinatorThread coordinator;

    DriverRun(SparkContext context, RDD<TaskRows> rows, TrainingJob job, LiveProgress.Listeners listeners,
            Duration slotsWithin) {
        this.context = context;
        this.rows = rows;
        this.job = job;
        this.slotsWithin = slotsWithin;
        live = new LiveProgress(job.progress().id(), listeners, this::taskFailed);
    }

    /**
     * Returns the weights. Spark itself does not start a barrier stage again that ends a job.
     *
     * @param sizes how many rows each task has, for an elastic run; {@code null} for a barrier stage
     */
    byte[] run(int attempts, int[] sizes) {
        context.addSparkListener(live);
        byte[] weights = null;
        try {
            weights = runUpTo(attempts, sizes);
        } finally {
            live.take(job.progress().value());
            context.removeSparkListener(live);
            if (live.broken() != null) {
                // The job was cancelled for it.
                throw live.broken();
            }
        }
        return weights;
    }

    private byte[] runUpTo(int attempts, int[] sizes) {
        for (int attempt = 1; true; attempt++) {
            try {
                return sizes == null ? run(job.attempt(attempt, null)) : elastic(attempt, sizes);
            } catch (SparkJobException e) {
                if (attempt >= attempts || !JobWatch.isLostTask(e)) {
                    throw e;
                }
                LOG.log(Level.WARNING, "attempt {0} of {1} failed and is started again{2}: {3}", attempt, attempts,
                        job.checkpoints() == null ? "" : " from the latest checkpoint in " + job.checkpoints(),
                        e.getMessage());
                Slots.await(context, job.tasks(), slotsWithin);
            }
        }
    }

    private byte[] elastic(int attempt, int[] sizes) {
        String host = context.conf().get("spark.driver.host");
        try (CoordinatorThread meeting = CoordinatorThread.start(Coordinator.open(job.reachedAt(host),
                job.workers(), Coordinator.OnLoss.REFORM, 1, READING))) {
            coordinator = meeting;
            return run(job.attempt(attempt, new TrainingJob.Elastic(meeting.address(), sizes)));
        } finally {
            coordinator = null;
        }
    }

    private byte[] run(TrainingJob attempt) {
        TrainingTask task = new TrainingTask(attempt);
        try (JobWatch watching = JobWatch.start(context, live, attempt.tasks(), slotsWithin,
                () -> attempt.elastic() != null && !arrived.isEmpty())) {
            watch = watching;
            RDD<byte[]> weights = attempt.elastic() == null
                    ? rows.barrier().mapPartitions(task, false, ClassTag$.MODULE$.<byte[]>apply(byte[].class))
                    : rows.toJavaRDD().mapPartitions(partition -> CollectionConverters.asJava(task.apply(
                            CollectionConverters.asScala(partition)))).rdd();
            context.runJob(weights, (Function1<Iterator<byte[]>, byte[][]> & Serializable) DriverRun::all,
                    new Arrival(arrived), ClassTag$.MODULE$.<byte[][]>apply(byte[][].class));
        } catch (SparkDataException | SparkJobException e) {
            throw e;
        } catch (Exception e) {
            // Spark throws checked exceptions that no signature names.
            if (e instanceof InterruptedException) {
                watch.cancel("the thread that waits for the job was interrupted");
                Thread.currentThread().interrupt();
                throw new SparkJobException("interrupted while training was under way; the job is cancelled", e);
            }
            if (arrived.isEmpty()) {
                String found = problem != null ? problem : problem(String.valueOf(e.getMessage()));
                throw found != null ? new SparkDataException(found) : JobWatch.failure(e);
            }
        } finally {
            watch = null;
        }
        if (arrived.isEmpty()) {
            throw new SparkJobException("rank 0 returned no weights; its log says why");
        }
        return arrived.getFirst();
    }

    private static byte[][] all(Iterator<byte[]> results) {
        List<byte[]> list = new ArrayList<>();
        CollectionConverters.asJava(results).forEachRemaining(list::add);
        return list.toArray(byte[][]::new);
    }

    /** Returns what cannot be cured by another attempt, if that is in the text of a failure; else {@code null}. */
    private static String problem(String failure) {
        Matcher found = PROBLEM.matcher(failure);
        return found.find() ? found.group(1) : null;
    }

    /** Ends an elastic job whose failure another attempt cannot cure; otherwise the other workers continue at once. */
    private void taskFailed(String why, int partition) {
        JobWatch present = watch;
        CoordinatorThread meeting = coordinator;
        if (present == null || meeting == null) {
            return;
        }
        String found = problem(why);
        if (found != null) {
            problem = found;
            present.cancel(found);
        } else {
            meeting.exclude(partition, "Spark says: " + why.lines().findFirst().orElse("the task failed"));
        }
    }

    /** Keeps what tasks return as soon as it is here. */
    private static final class Arrival extends AbstractFunction2<Object, byte[][], BoxedUnit> {
        private final List<byte[]> arrived;

        Arrival(List<byte[]> arrived) {
            this.arrived = arrived;
        }

        @Override
        public BoxedUnit apply(Object partition, byte[][] results) {
            arrived.addAll(List.of(results));
            return BoxedUnit.UNIT;
        }
    }
}
