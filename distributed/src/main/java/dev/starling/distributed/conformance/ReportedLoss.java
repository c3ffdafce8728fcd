package dev.starling.distributed.conformance;

import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import java.util.List;

/**
 * The process that a failed process reports as lost, compared with the plan.
 *
 * @param process the one reported as lost
 * @param explained whether a fault had affected it, or the reporting process, by the time of the report
 * @param sinceNs time between the last fault of any process and the report
 */
record ReportedLoss(String process, boolean explained, long sinceNs) {
    static ReportedLoss of(Schedule schedule, Outcome reporter, PeerLostException loss) {
        String lost = name(reporter, loss);
        ExpectedEffects effects = schedule.effects();
        long at = reporter.failedNs;
        boolean explained = effects.troubles(lost).stream().anyMatch(t -> t.fromNs() <= at)
                || effects.troubles(reporter.process()).stream().anyMatch(t -> t.fromNs() <= at)
                || schedule.all().stream().anyMatch(o -> o.name.startsWith(lost) && hasEnded(o, reporter, at));
        long last = 0;
        for (String process : effects.plan().ranks()) {
            for (ExpectedEffects.Trouble t : effects.troubles(process)) {
                last = t.fromNs() <= at ? Math.max(last, Math.min(at, t.toNs())) : last;
            }
        }
        for (Outcome o : schedule.all()) {
            last = hasEnded(o, reporter, at) ? Math.max(last, o.endedNs) : last;
        }
        return new ReportedLoss(lost, explained, at - last);
    }

    /** A restarted process may join after all others, servers and coordinator included, have finished. */
    private static boolean hasEnded(Outcome o, Outcome reporter, long at) {
        return o.isLostBy(at) || reporter.isRestarted() && o.endedNs <= at;
    }

    /** Ranks in messages are those of the reporter's last view; those of missing servers are the initial ones. */
    private static String name(Outcome reporter, PeerLostException loss) {
        List<Member> members = reporter.view.members();
        return loss.rank() < 0 ? ExpectedEffects.COORDINATOR
                : members.isEmpty() || String.valueOf(loss.getMessage()).contains("it is server")
                        ? "rank" + loss.rank() : members.get(loss.rank()).host();
    }
}
