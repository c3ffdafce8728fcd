package dev.starling.distributed;

import dev.starling.tensor.TensorException;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.Agent;

/**
 * Says who belongs to a group: gathers those that join, gives them ranks, and decides what happens when one is lost. It
 * sees no data. Runs wherever it is driven: in a launcher, beside rank 0, or in a process of its own; see
 * {@link CoordinatorThread}. Without it the present epoch goes on, but none follows.
 */
public final class Coordinator implements Agent, AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Transport transport;
    private final int world;
    private final OnLoss onLoss;
    private final int fewest;
    private final long joiningNs;
    private final long settleNs;
    private final long begunNs;
    private final List<Seat> seats = new ArrayList<>();
    /** To those who do not belong, or no longer: what there was no room to tell them. */
    private final List<Outbox> parting = new ArrayList<>();
    private final Map<Long, Suspicion> suspicions = new HashMap<>();
    private View view = new View(0, List.of());
    private long ids;
    private boolean started;
    private boolean everStarted;
    private boolean ended;
    private boolean stale;
    private long suspectedNs;
    private long viewNs;

    private Coordinator(Transport transport, int world, OnLoss onLoss, int fewest, Duration joining) {
        this.transport = transport;
        this.world = world;
        this.onLoss = onLoss;
        this.fewest = fewest;
        joiningNs = joining.toNanos();
        settleNs = transport.config().livenessTimeout().toNanos() / 2;
        begunNs = transport.nanoTime();
        transport.onMessage(this::take);
        transport.onConnection(new ConnectionHandler() {
            @Override
            public void onLost(Endpoint endpoint) {
                gone(endpoint);
            }
        });
    }

    /** What a loss means. */
    public enum OnLoss {
        /** The group ends: every member learns which rank was lost. */
        END,
        /** The others form a new epoch, and newcomers may join one. */
        REFORM
    }

    /**
     * Makes a coordinator on a transport, which it then owns.
     *
     * @param world number of processes to wait for before the first epoch
     * @param fewest number of processes that may go on together after losses
     * @param joining how long the first epoch may take to come together
     */
    public static Coordinator over(Transport transport, int world, OnLoss onLoss, int fewest, Duration joining) {
        if (world < 1 || world > Control.MAX_MEMBERS || fewest < 1 || fewest > world) {
            throw TensorException.argument("coordinator", "1 <= fewest <= world <= " + Control.MAX_MEMBERS
                    + " must hold, got fewest " + fewest + " and world " + world, "change them");
        }
        return new Coordinator(transport, world, onLoss, fewest, joining);
    }

    /** Makes a coordinator on a transport of its own. */
    public static Coordinator open(TransportConfig config, int world, OnLoss onLoss, int fewest, Duration joining) {
        return over(Transport.open(config), world, onLoss, fewest, joining);
    }

    /** A process that joined. */
    private static final class Seat {
        private final long id;
        private final Control.Join join;
        private final Outbox outbox;
        private long ready;

        Seat(long id, Control.Join join, Endpoint endpoint) {
            this.id = id;
            this.join = join;
            outbox = new Outbox(endpoint);
        }
    }

    /**
     * What members say of one that they cannot reach.
     *
     * @param members how many of them
     * @param heardNs when any of them heard it last
     * @param reason what the first of them said
     */
    private record Suspicion(int members, long heardNs, String reason) {
        Suspicion and(Suspicion other) {
            return new Suspicion(members + other.members, Math.max(heardNs, other.heardNs), reason);
        }
    }

    /** Returns where members reach this. */
    public String address() {
        return transport.address();
    }

    /** Returns the present view; one of no members before the first epoch. */
    public View view() {
        return view;
    }

    /** Returns whether the group came together and all its members have left or it has ended, and all know. */
    public boolean isDone() {
        return parting.isEmpty() && (everStarted && seats.isEmpty()
                || ended && seats.stream().allMatch(s -> isTold(s.outbox)));
    }

    private static boolean isTold(Outbox outbox) {
        return outbox.isEmpty() || !outbox.endpoint().isConnected();
    }

    @Override
    public int doWork() {
        int work = transport.doWork();
        for (int i = 0; i < seats.size(); i++) {
            work += seats.get(i).outbox.doWork();
        }
        for (int i = parting.size() - 1; i >= 0; i--) {
            work += parting.get(i).doWork();
            if (isTold(parting.get(i))) {
                parting.remove(i);
            }
        }
        long now = transport.nanoTime();
        if (!everStarted && !ended && now - begunNs > joiningNs) {
            end("only " + seats.size() + " of " + world + " processes joined within "
                    + Duration.ofNanos(joiningNs).toSeconds() + " s; start the others, or ask for fewer");
        }
        if (suspectedNs != 0 && now - suspectedNs > settleNs) {
            judge();
        }
        if (stale && !ended) {
            propose(now);
        }
        if (!started && !view.members().isEmpty() && now - viewNs > 4 * settleNs + joiningNs) {
            evictUnready();
        }
        return work;
    }

    @Override
    public String roleName() {
        return "starling-coordinator";
    }

    /**
     * Excludes the process that has been here longest of those that joined with a wish, as if its link had closed: for
     * those who learn of its end sooner than the network does. Nothing happens if there is none. To be called between
     * calls of {@link #doWork}.
     */
    void exclude(int wish, String reason) {
        seats.stream().filter(s -> s.join.wish() == wish).min(Comparator.comparingLong(s -> s.id)).ifPresent(seat ->
                evict(seat, reason, unheardNs(seat.outbox.endpoint())));
    }

    /** Works until all members have left or the time is over; for a coordinator that has a thread to itself. */
    public void run(Duration atMost) {
        transport.await(() -> {
            doWork();
            return isDone();
        }, atMost, "the members to leave");
    }

    private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < Channels.HEADER || buffer.getInt(offset, Channels.ORDER) != Channels.CONTROL) {
            return;
        }
        byte[] body = new byte[length - Channels.HEADER];
        buffer.getBytes(offset + Channels.HEADER, body);
        try {
            Control message = Control.decode(body);
            Seat seat = (Seat) from.attachment();
            if (message instanceof Control.Join join && seat == null) {
                join(from, join);
            } else if (seat != null) {
                take(seat, message);
            }
        } catch (IOException e) {
            LOG.log(Level.WARNING, "refused a message of {0}: {1}", from.address(), e.getMessage());
        }
    }

    private void take(Seat seat, Control message) {
        switch (message) {
            case Control.Ready m -> {
                seat.ready = m.epoch();
                startIfReady();
            }
            case Control.Suspect m -> suspect(seat, m);
            case Control.Leave m -> leave(seat);
            case Control.Join _, Control.NewView _, Control.Start _, Control.Lost _, Control.Refused _ -> { }
        }
    }

    private void join(Endpoint from, Control.Join join) {
        Seat seat = new Seat(++ids, join, from);
        String refusal = null;
        if (ended) {
            refusal = "the group has ended";
        } else if (onLoss == OnLoss.END && (everStarted || seats.size() >= world)) {
            // One that may re-form takes newcomers from the first, who may come in place of one not known to be gone.
            refusal = "the group of " + world + " is complete; only one that may re-form takes newcomers";
        }
        if (refusal != null) {
            refuse(seat, refusal);
            return;
        }
        from.attach(seat);
        seats.add(seat);
        stale = true;
    }

    /** Begins a new epoch with those who are there. */
    private void propose(long now) {
        if (!everStarted && seats.size() < world || seats.isEmpty()) {
            return;
        }
        stale = false;
        if (seats.size() < fewest) {
            end("only " + seats.size() + " processes are left of the " + fewest + " that must be");
            return;
        }
        suspicions.clear();
        suspectedNs = 0;
        // Those who have a rank keep their order; newcomers come last, by their wish.
        seats.sort(everStarted ? Comparator.comparingLong(s -> s.id)
                : Comparator.<Seat>comparingInt(s -> s.join.wish() < 0 ? Integer.MAX_VALUE : s.join.wish())
                        .thenComparingLong(s -> s.id));
        if (everStarted) {
            List<Member> before = view.members();
            seats.sort(Comparator.comparingInt(s -> rank(before, s.id)));
        }
        List<Member> members = new ArrayList<>();
        for (int rank = 0; rank < seats.size(); rank++) {
            Seat seat = seats.get(rank);
            members.add(new Member(seat.id, rank, seat.join.address(), seat.join.host()));
        }
        view = new View(view.epoch() + 1, members);
        viewNs = now;
        started = false;
        // To send may be to notice that a member is gone.
        for (Seat seat : List.copyOf(seats)) {
            seat.outbox.send(Channels.CONTROL, new Control.NewView(seat.id, view));
        }
    }

    private static int rank(List<Member> members, long id) {
        for (Member member : members) {
            if (member.id() == id) {
                return member.rank();
            }
        }
        return Integer.MAX_VALUE;
    }

    private void startIfReady() {
        if (!started && !stale && seats.size() == view.world()
                && seats.stream().allMatch(s -> s.ready == view.epoch())) {
            started = true;
            everStarted = true;
            List.copyOf(seats).forEach(s -> s.outbox.send(Channels.CONTROL, new Control.Start(view.epoch())));
        }
    }

    private void suspect(Seat from, Control.Suspect suspicion) {
        if (suspicion.epoch() != view.epoch() || view.byId(suspicion.id()) == null) {
            return;
        }
        if (seats.stream().noneMatch(s -> s.id == suspicion.id())) {
            // It has left, and is missed: the others are not done yet.
            if (onLoss == OnLoss.REFORM) {
                stale = true;
            } else {
                tellLoss(rank(view.members(), suspicion.id()), suspicion.unheardNs(), suspicion.reason());
            }
            return;
        }
        int rank = rank(view.members(), from.id);
        LOG.log(Level.INFO, "rank {0} cannot reach rank {1}: {2}", rank, rank(view.members(), suspicion.id()),
                suspicion.reason());
        long now = transport.nanoTime();
        suspicions.merge(suspicion.id(), new Suspicion(1, now - suspicion.unheardNs(), "rank " + rank + " says: "
                + suspicion.reason()), Suspicion::and);
        if (suspectedNs == 0) {
            suspectedNs = now;
        }
    }

    /** Members that it hears cannot hear each other: the most suspected goes, the higher rank of equals. */
    private void judge() {
        suspectedNs = 0;
        Seat worst = null;
        Suspicion most = null;
        for (Seat seat : seats) {
            Suspicion suspicion = suspicions.get(seat.id);
            if (suspicion != null && (most == null || suspicion.members >= most.members)) {
                most = suspicion;
                worst = seat;
            }
        }
        suspicions.clear();
        if (worst != null) {
            evict(worst, "cut off from " + most.members + " of the " + (view.world() - 1) + " other members; "
                    + most.reason, transport.nanoTime() - most.heardNs);
        }
    }

    private void evictUnready() {
        viewNs = transport.nanoTime();
        for (Seat seat : List.copyOf(seats)) {
            if (seat.ready != view.epoch()) {
                evict(seat, "did not reach the other members in time", unheardNs(seat.outbox.endpoint()));
            }
        }
    }

    private void gone(Endpoint endpoint) {
        if (endpoint.attachment() instanceof Seat seat && seats.contains(seat)) {
            evict(seat, endpoint.reason(), unheardNs(endpoint));
        }
        // Whoever comes again does so anew.
        endpoint.close();
    }

    private long unheardNs(Endpoint endpoint) {
        return transport.nanoTime() - endpoint.lastReceivedNs();
    }

    private void evict(Seat seat, String reason, long unheardNs) {
        int rank = rank(view.members(), seat.id);
        seats.remove(seat);
        refuse(seat, "rank " + rank + " was excluded: " + reason);
        if (onLoss == OnLoss.END && everStarted) {
            tellLoss(rank, unheardNs, reason);
        } else {
            stale = true;
        }
    }

    private void refuse(Seat seat, String reason) {
        parting.add(seat.outbox);
        seat.outbox.send(Channels.CONTROL, new Control.Refused(reason));
    }

    private void tellLoss(int rank, long unheardNs, String reason) {
        ended = true;
        Control.Lost loss = new Control.Lost(view.epoch(), rank, unheardNs, reason);
        List.copyOf(seats).forEach(s -> s.outbox.send(Channels.CONTROL, loss));
    }

    private void leave(Seat seat) {
        seats.remove(seat);
        seat.outbox.endpoint().attach(null);
        // An epoch that waits for it never comes together.
        if (!started || onLoss == OnLoss.REFORM && suspicions.containsKey(seat.id)) {
            stale = true;
        } else if (onLoss == OnLoss.END && suspicions.containsKey(seat.id) && !ended) {
            // It gave up, as did whoever suspects it; the others may wait for either.
            tellLoss(rank(view.members(), seat.id), 0, "it has left");
        }
    }

    private void end(String reason) {
        ended = true;
        List.copyOf(seats).forEach(s -> s.outbox.send(Channels.CONTROL, new Control.Refused(reason)));
    }

    @Override
    public void onClose() {
        close();
    }

    /** Leaves the members to themselves, and closes the transport. */
    @Override
    public void close() {
        transport.close();
    }
}
