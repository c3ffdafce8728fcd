package dev.starling.distributed.schedule;

import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.schedule.Schedule.Outcome;
import java.util.List;

/**
 * Whom a process that failed holds to be lost, and what the plan has to say to that.
 *
 * @param named who that is
 * @param isJust whether something had happened to it by then, or to the one that holds it to be lost
 * @param sinceNs how long before the last thing had happened to anybody
 */
record Blame(String named, boolean isJust, long sinceNs) {
    static Blame of(Schedule schedule, Outcome who, PeerLostException loss) {
        String named = name(who, loss);
        Forecast forecast = schedule.forecast();
        long at = who.failedNs;
        boolean isJust = forecast.troubles(named).stream().anyMatch(t -> t.fromNs() <= at)
                || forecast.troubles(who.process()).stream().anyMatch(t -> t.fromNs() <= at)
                || schedule.everybody().stream().anyMatch(o -> o.name.startsWith(named) && isGone(o, who, at));
        long last = 0;
        for (String process : forecast.plan().ranks()) {
            for (Forecast.Trouble t : forecast.troubles(process)) {
                last = t.fromNs() <= at ? Math.max(last, Math.min(at, t.toNs())) : last;
            }
        }
        for (Outcome o : schedule.everybody()) {
            last = isGone(o, who, at) ? Math.max(last, o.goneNs) : last;
        }
        return new Blame(named, isJust, at - last);
    }

    /** Who comes back may come when the others are done, servers and coordinator, too. */
    private static boolean isGone(Outcome o, Outcome to, long at) {
        return o.isLostBy(at) || to.isAgain() && o.goneNs <= at;
    }

    /** Ranks are those of the group as it was; of servers that do not come back, those at the beginning. */
    private static String name(Outcome who, PeerLostException loss) {
        List<Member> members = who.view.members();
        return loss.rank() < 0 ? Forecast.COORDINATOR : members.isEmpty() || loss.getMessage().contains("it is server")
                ? "rank" + loss.rank() : members.get(loss.rank()).host();
    }
}
