package dev.starling.distributed.coordinator;

import dev.starling.distributed.group.Control;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongPredicate;
import org.jspecify.annotations.Nullable;

/** What members of an epoch have reported about other members that they cannot reach. */
final class Suspicions {
    /** By id of the suspected member. */
    private final Map<Long, Suspicion> suspicions = new HashMap<>();
    /** By id of the reporting member, the first loss that it reported. */
    private final Map<Long, Report> reports = new HashMap<>();
    /** Time of the first suspicion that is not resolved; 0 if there is none. */
    private long sinceNs;

    /**
     * The reports about one member.
     *
     * @param members number of reporting members
     * @param heardNs when the last of them received anything from it
     * @param reason from the first report
     */
    record Suspicion(int members, long heardNs, String reason) {
        private Suspicion and(Suspicion other) {
            return new Suspicion(members + other.members, Math.max(heardNs, other.heardNs), reason);
        }
    }

    /**
     * The first loss that a member has reported.
     *
     * @param id of the lost member
     * @param heardNs when the reporting member last received anything from it
     * @param reason with the rank of the reporting member
     */
    record Report(long id, long heardNs, String reason) { }

    /** Adds the report of a member. */
    void add(long reporter, int rank, Control.Suspect suspicion, long now) {
        Report report = new Report(suspicion.id(), now - suspicion.silentNs(), "rank " + rank + " reports: "
                + suspicion.reason());
        reports.putIfAbsent(reporter, report);
        suspicions.merge(report.id, new Suspicion(1, report.heardNs, report.reason), Suspicion::and);
        if (sinceNs == 0) {
            sinceNs = now;
        }
    }

    /** Returns the reports about a member, or {@code null} if there are none. */
    @Nullable Suspicion of(long id) {
        return suspicions.get(id);
    }

    /** Returns the process that most members suspect; of equally suspected ones, a new one, and of those the last. */
    Optional<Participant> worst(List<Participant> participants, LongPredicate isNew) {
        Comparator<Participant> order = Comparator.<Participant>comparingInt(p -> members(p.id))
                .thenComparing(p -> isNew.test(p.id));
        return participants.stream().filter(p -> members(p.id) > 0)
                .reduce((worst, next) -> order.compare(next, worst) >= 0 ? next : worst);
    }

    /** Returns the number of members that suspect a member. */
    private int members(long id) {
        Suspicion suspicion = suspicions.get(id);
        return suspicion == null ? 0 : suspicion.members;
    }

    /** Returns whether the first unresolved suspicion is older than a time. */
    boolean areOlderThan(long ns, long now) {
        return sinceNs != 0 && now - sinceNs > ns;
    }

    /**
     * Returns the report that explains why a member has left: the loss that it has reported itself, or the one that
     * the lost member had reported, and so on. {@code null} if it has reported none, or if the reports form a circle.
     */
    @Nullable Report cause(long id) {
        Set<Long> seen = new HashSet<>(Set.of(id));
        Report cause = reports.get(id);
        for (Report next = cause; next != null; next = reports.get(next.id)) {
            if (!seen.add(next.id)) {
                return null;
            }
            cause = next;
        }
        return cause;
    }

    /** Drops all suspicions, because they are resolved; the reports still explain why members leave. */
    void resolve() {
        suspicions.clear();
        sinceNs = 0;
    }

    /** Drops everything, because an epoch begins. */
    void clear() {
        resolve();
        reports.clear();
    }
}
