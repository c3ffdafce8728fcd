package dev.starling.spark;

import dev.starling.distributed.Quorum;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
import java.io.Serializable;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.TaskInfo;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** The driver's part of a run: runs the job, and repeats it if another attempt may succeed. Used by one thread. */
final class DriverRun {
    private static final System.Logger LOG = System.getLogger("dev.starling.spark");
    private static final Duration JOIN_TIMEOUT = Duration.ofDays(365);
    /** Matches a task's exception in Spark's message. */
    private static final Pattern DATA_PROBLEM = Pattern.compile(Pattern.quote(SparkDataException.class.getName())
            + ": (.*?)(\\R\\tat |\\z)", Pattern.DOTALL);

    private final SparkContext context;
    private final RDD<TaskRows> rows;
    private final TrainingJob job;
    private final LiveProgress live;
    private final Duration slotTimeout;
    /** Weights that tasks returned. */
    private final List<byte[]> returned = Collections.synchronizedList(new ArrayList<>());
    private volatile JobWatch watch;
    private volatile String problem;
    /** {@code null} in a barrier stage. */
    private volatile CoordinatorThread coordinator;

    DriverRun(SparkContext context, RDD<TaskRows> rows, TrainingJob job, LiveProgress.Listeners listeners,
            Duration slotTimeout) {
        this.context = context;
        this.rows = rows;
        this.job = job;
        this.slotTimeout = slotTimeout;
        live = new LiveProgress(job.progress().id(), listeners, this::taskFailed);
    }

    /**
     * Runs the job and returns the weights. Spark does not retry a barrier stage at the end of a job, so this does.
     *
     * @param sizes the number of rows of each task of an elastic run; {@code null} for a barrier stage
     */
    byte[] run(int attempts, int[] sizes) {
        context.addSparkListener(live);
        byte[] weights = null;
        try {
            weights = runUpTo(attempts, sizes);
        } finally {
            live.receive(job.progress().value());
            context.removeSparkListener(live);
            if (live.listenerFailure() != null) {
                // The job was cancelled because of this exception.
                throw live.listenerFailure();
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
                LOG.log(Level.WARNING, "attempt {0} of {1} failed, training restarts{2}: {3}", attempt, attempts,
                        job.checkpoints() == null ? "" : " from the latest checkpoint in " + job.checkpoints(),
                        e.getMessage());
                Slots.await(context, job.tasks(), slotTimeout);
            }
        }
    }

    private byte[] elastic(int attempt, int[] sizes) {
        String host = context.conf().get("spark.driver.host");
        // Spark decides which tasks live, and the driver's end ends the job: there is no other side that continues.
        CoordinatorConfig rules = CoordinatorConfig.of(job.workers(), Coordinator.OnLoss.REFORM)
                .quorum(new Quorum.None()).joinTimeout(JOIN_TIMEOUT);
        try (CoordinatorThread opened = CoordinatorThread.start(Coordinator.open(job.transportAt(host), rules))) {
            coordinator = opened;
            return run(job.attempt(attempt, new TrainingJob.Elastic(opened.address(), sizes)));
        } finally {
            coordinator = null;
        }
    }

    private byte[] run(TrainingJob attempt) {
        TrainingTask task = new TrainingTask(attempt);
        try (JobWatch watching = JobWatch.start(context, live, attempt.tasks(), slotTimeout,
                () -> attempt.elastic() != null && !returned.isEmpty())) {
            watch = watching;
            RDD<byte[]> weights = attempt.elastic() == null
                    ? rows.barrier().mapPartitions(task, false, ClassTag$.MODULE$.<byte[]>apply(byte[].class))
                    : rows.toJavaRDD().mapPartitions(partition -> CollectionConverters.asJava(task.apply(
                            CollectionConverters.asScala(partition)))).rdd();
            context.runJob(weights, (Function1<Iterator<byte[]>, byte[][]> & Serializable) DriverRun::all,
                    new ResultCollector(returned), ClassTag$.MODULE$.<byte[][]>apply(byte[][].class));
        } catch (SparkDataException | SparkJobException e) {
            throw e;
        } catch (Exception e) {
            // Spark throws checked exceptions without declaring them.
            if (e instanceof InterruptedException) {
                watch.cancel("the thread that waits for the job was interrupted");
                Thread.currentThread().interrupt();
                throw new SparkJobException("interrupted during training; the job is cancelled", e);
            }
            if (returned.isEmpty()) {
                String found = problem != null ? problem : problem(String.valueOf(e.getMessage()));
                throw found != null ? new SparkDataException(found) : JobWatch.failure(e);
            }
        } finally {
            watch = null;
        }
        if (returned.isEmpty()) {
            throw new SparkJobException("rank 0 returned no weights; its log says why");
        }
        return returned.getFirst();
    }

    private static byte[][] all(Iterator<byte[]> results) {
        List<byte[]> list = new ArrayList<>();
        CollectionConverters.asJava(results).forEachRemaining(list::add);
        return list.toArray(byte[][]::new);
    }

    /** Returns the message of an error that another attempt would repeat; {@code null} if the failure has none. */
    static String problem(String failure) {
        Matcher found = DATA_PROBLEM.matcher(failure);
        return found.find() ? found.group(1) : null;
    }

    /** Cancels an elastic job if another attempt would fail too; else the other workers continue immediately. */
    private void taskFailed(String why, TaskInfo task) {
        JobWatch running = watch;
        CoordinatorThread meeting = coordinator;
        if (running == null || meeting == null) {
            return;
        }
        String found = problem(why);
        if (found != null) {
            problem = found;
            running.cancel(found);
        } else {
            // Spark may already have restarted the task, if its listener bus is behind.
            long agoNs = TimeUnit.MILLISECONDS.toNanos(Math.max(0, System.currentTimeMillis() - task.finishTime()));
            meeting.exclude(task.partitionId(), "Spark says: " + why.lines().findFirst().orElse("the task failed"),
                    System.nanoTime() - agoNs);
        }
    }

    /** Collects the results of tasks as each one ends. */
    private static final class ResultCollector extends AbstractFunction2<Object, byte[][], BoxedUnit> {
        private final List<byte[]> returned;

        ResultCollector(List<byte[]> returned) {
            this.returned = returned;
        }

        @Override
        public BoxedUnit apply(Object partition, byte[][] results) {
            returned.addAll(List.of(results));
            return BoxedUnit.UNIT;
        }
    }
}
