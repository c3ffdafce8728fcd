package dev.starling.distributed.conformance;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.transport.TransportException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** What must hold after a {@link Schedule}. */
final class Invariants {
    /**
     * Maximum time until all processes detect a loss: one liveness timeout until the first detects it, another until
     * processes that could not be notified lose that one, half of one until the coordinator decides, and half of one
     * for messages in flight.
     */
    private static final Duration DETECTION = Schedule.SILENCE.multipliedBy(3);
    /** The subject of an error message. */
    private static final Pattern SUBJECT = Pattern.compile("(rank|server|worker|group of) [0-9]|coordinator"
            + "|[0-9] processes|all ranks have arrived|this process is cut off");
    /** The cause in an error message. */
    private static final Pattern CAUSE = Pattern.compile("closed|ended the connection|received nothing|frames were lost"
            + "|has left|cut off from|did not connect|did not return|has not arrived|has not answered"
            + "|has seen no worker|is cut off from the quorum|no connection yet|waits for other members"
            + "|did not start within|waited PT|is complete");

    private Invariants() { }

    static void require(boolean holds, Supplier<String> message) {
        if (!holds) {
            throw new AssertionError(message.get());
        }
    }

    /** Checks that each failed process has an exception of the group, whose message names a process and a cause. */
    static void requireExplained(Schedule schedule) {
        for (Outcome outcome : schedule.outcomes().values()) {
            RuntimeException failure = outcome.failure;
            if (failure != null) {
                // A trainer passes other exceptions on as causes.
                require(isOfGroup(failure) || isOfGroup(failure.getCause()), () -> outcome.name + " must end with a "
                        + "DistributedException or a TransportException, but ends with " + failure
                        + schedule.describe());
                String message = String.valueOf(failure.getMessage());
                require(SUBJECT.matcher(message).find() && CAUSE.matcher(message).find(), () -> outcome.name
                        + " must name a process and a cause, but says: " + message + schedule.describe());
            }
        }
    }

    private static boolean isOfGroup(@Nullable Throwable failure) {
        return failure instanceof DistributedException || failure instanceof TransportException;
    }

    /**
     * Checks that all processes have the same weights after a step. A process that is restarted when all others have
     * ended begins another run, which is compared separately. If several have begun one, which do not know of each
     * other without a quorum, processes are compared that took a step in the same epoch of a group.
     */
    static void requireSameWeights(Map<String, Outcome> outcomes) {
        LongSummaryStatistics begins = outcomes.values().stream()
                .filter(o -> o.isRestarted() && o.weightsByStep.containsKey(1L))
                .mapToLong(o -> o.firstStepNs).summaryStatistics();
        Map<Object, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> {
            if (begins.getCount() > 1) {
                outcome.weightsByEpochAndStep.forEach((step, weights) -> requireSame(name, step, weights, first));
            } else {
                boolean another = begins.getCount() == 1 && outcome.firstStepNs >= begins.getMin();
                outcome.weightsByStep.forEach((step, weights) -> requireSame(name, another ? -step : step, weights,
                        first));
            }
        });
    }

    private static void requireSame(String name, Object step, float[] weights, Map<Object, float[]> first) {
        float[] others = first.putIfAbsent(step, weights);
        require(others == null || Arrays.equals(others, weights), () -> name + " has " + Arrays.toString(weights)
                + " after step " + step + ", another rank " + Arrays.toString(others));
    }

    /** Checks that all weights are finite. */
    static void requireFinite(Map<String, Outcome> outcomes) {
        outcomes.values().forEach(o -> o.weightsByStep.forEach((step, weights) -> {
            for (float each : weights) {
                require(Float.isFinite(each), () -> o.name + " has the weight " + each + " after step " + step);
            }
        }));
    }

    /** Checks that each reported loss is explained by a fault, and was reported soon after it. */
    static void requireJustified(Schedule schedule) {
        for (Outcome outcome : schedule.outcomes().values()) {
            if (outcome.failure instanceof PeerLostException e) {
                ReportedLoss report = ReportedLoss.of(schedule, outcome, e);
                boolean timedOut = String.valueOf(e.getMessage()).contains("did not return within");
                Duration limit = (timedOut ? Schedule.TIMEOUT : Duration.ZERO).plus(DETECTION);
                require(report.explained(), () -> outcome.name + " reports " + report.process()
                        + " as lost, but no fault had affected it by " + Duration.ofNanos(outcome.failedNs)
                        + schedule.describe());
                require(report.sinceNs() < limit.toNanos(), () -> outcome.name + " reported the loss of "
                        + report.process() + " only " + Duration.ofNanos(report.sinceNs())
                        + " after the last fault, expected less than " + limit + schedule.describe());
            }
        }
    }

    /**
     * Checks that every process that could not be excluded has finished its run; without harmful faults, that all have.
     *
     * @param survives whether the remaining processes continue after a loss
     * @param mustFinish whether a process has to finish if no fault has harmed it
     * @return the number of processes that had to finish
     */
    static int requireFinished(Schedule schedule, boolean survives, Predicate<Outcome> mustFinish) {
        boolean fair = schedule.effects().isFair();
        int count = 0;
        for (Outcome outcome : schedule.outcomes().values()) {
            if (fair || survives && schedule.effects().isUnharmed(outcome.name) && mustFinish.test(outcome)) {
                require(outcome.ended, () -> outcome.name + " must finish" + (fair ? " without harmful faults" : "")
                        + schedule.describe());
                count++;
            }
        }
        return count;
    }
}
