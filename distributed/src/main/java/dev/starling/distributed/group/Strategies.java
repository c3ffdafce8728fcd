package dev.starling.distributed.group;

import dev.starling.distributed.Member;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/** Compares the strategies of a group's members: different ones would wait for each other's messages in vain. */
public final class Strategies {
    private static final int CHANNEL = Channels.FIRST_OF_STRATEGIES + 2;
    private static final RecordCodec<Beginning> CODEC = RecordCodec.of(Beginning.class);

    private final Membership group;
    /** By id, the last message of each other member. */
    private final Map<Long, Beginning> others = new HashMap<>();
    private Beginning own = new Beginning(0, 0, "", "");
    /** Ids of the members at the beginning of the present run. */
    private Set<Long> founders = Set.of();

    /**
     * A member begins a run.
     *
     * @param run its number among the runs of the member in this group
     * @param since the epoch in which the member began its first run
     * @param difference from another member's strategy, because of which the run ends; empty if there is none
     */
    private record Beginning(int run, long since, String strategy, String difference) { }

    Strategies(Membership group) {
        this.group = group;
    }

    /**
     * Notifies the other members that this process begins a run with a strategy. If one of them begins the same run
     * with another strategy, the group ends on all members with the reason; a process that joins later with another
     * strategy ends alone.
     */
    public static void begin(Membership group, String strategy) {
        group.locked(() -> group.strategies.begin(strategy));
    }

    /**
     * Returns what the {@code start} of a strategy has set.
     *
     * @throws IllegalStateException if {@code method} was called before it
     */
    public static <T> T started(@Nullable T value, String method) {
        if (value == null) {
            throw new IllegalStateException(method + " needs a strategy that has been started and is not closed; call"
                    + " start first, as a Trainer does");
        }
        return value;
    }

    private void begin(String strategy) {
        own = new Beginning(own.run + 1, own.run == 0 ? group.epoch() : own.since, strategy, "");
        founders = group.view().members().stream().map(Member::id).collect(Collectors.toSet());
        sendToAll();
        if (own.run == 1) {
            group.channel(CHANNEL, this::onMessage);
        }
        founders.forEach(this::compare);
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (!(from.attachment() instanceof Long id)) {
            return;
        }
        try {
            Beginning received = CODEC.decode(buffer, offset, length);
            boolean isNew = !received.equals(others.put(id, received));
            if (founders.contains(id)) {
                compare(id);
            } else if (isNew && differs(received)) {
                send(from);
            }
        } catch (IOException e) {
            System.getLogger("dev.starling.distributed").log(Level.WARNING, "refused a malformed message about the "
                    + "strategy from {0}: {1}", from.address(), e.getMessage());
        }
    }

    private boolean differs(Beginning other) {
        return isOfSameRun(other) && !(other.strategy.equals(own.strategy) && other.difference.isEmpty());
    }

    /** Returns whether a run is this one; a member that has joined after others' first runs counts from its own. */
    private boolean isOfSameRun(Beginning other) {
        return other.run == own.run && (own.run == 1 || other.since == own.since);
    }

    /** Ends the group if a member has begun the same run with another strategy. */
    private void compare(long id) {
        Beginning other = others.get(id);
        if (other == null || !differs(other) || group.isEnded()) {
            return;
        }
        own = new Beginning(own.run, own.since, own.strategy, other.difference.isEmpty() ? difference()
                : other.difference);
        // Members that have not heard of it would otherwise take the end of this one for the reason.
        sendToAll();
        group.abort(own.difference);
    }

    private String difference() {
        SortedMap<Integer, RunSettings> byRank = new TreeMap<>();
        byRank.put(group.rank(), settings(own));
        for (Member member : group.view().members()) {
            Beginning other = others.get(member.id());
            if (other != null && isOfSameRun(other) && founders.contains(member.id())) {
                byRank.put(member.rank(), settings(other));
            }
        }
        try {
            RunSettings.requireSame(byRank, "rank");
            return "the settings of the ranks differ: a member that has left has another strategy than " + own.strategy;
        } catch (SettingsMismatchException e) {
            return String.valueOf(e.getMessage());
        }
    }

    private static RunSettings settings(Beginning of) {
        return new RunSettings(Map.of("strategy", of.strategy));
    }

    private void sendToAll() {
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            if (endpoint != null) {
                send(endpoint);
            }
        }
    }

    private void send(Endpoint to) {
        byte[] body = CODEC.encode(own);
        UnsafeBuffer message = new UnsafeBuffer(new byte[Channels.HEADER + body.length]);
        message.putInt(0, CHANNEL, Channels.ORDER);
        message.putBytes(Channels.HEADER, body);
        to.send(message, 0, message.capacity());
    }
}
