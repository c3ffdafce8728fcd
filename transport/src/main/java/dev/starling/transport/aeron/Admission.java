package dev.starling.transport.aeron;

import io.aeron.driver.DataPacketDispatcher;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.media.ImageConnection;
import io.aeron.driver.media.ReceiveChannelEndpoint;
import io.aeron.driver.media.UdpChannel;
import io.aeron.protocol.DataHeaderFlyweight;
import io.aeron.protocol.RttMeasurementFlyweight;
import io.aeron.protocol.SetupFlyweight;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.status.AtomicCounter;

/**
 * The socket of a wire. Aeron allocates memory for each sender that announces itself, as much as the announcement asks
 * for, before any handshake can begin. This socket passes an announcement on only if its terms are no longer than the
 * wire's own, if there are not many more senders than the wire has links, and if few of them, in all and from one
 * address, have yet to prove that they have the secret: what a stranger's datagrams can allocate is bounded, and a
 * stranger at one address keeps no process at another out.
 *
 * <p>Aeron searches the data of each sender for gaps whenever the driver works, and asks for what is missing every few
 * hundred microseconds for as long as it is missing. A stranger that leaves gaps would keep the processor busy with
 * little data. Until a sender is proven, this socket therefore passes its data on in order only, and itself asks for
 * what is missing, but seldom. Aeron also lets a sender end its stream and begin it again, with new memory each time
 * while it still keeps the old; an unproven sender cannot begin again.
 */
final class Admission extends ReceiveChannelEndpoint {
    /** Senders that may be unproven at the same time, beyond the number of the wire's links: in all, of an address. */
    private static final int UNPROVEN = 4;
    private static final int UNPROVEN_OF_ADDRESS = 2;
    /** For each link a sender, and another one that a restarted process has left behind. */
    private static final int SENDERS_PER_LINK = 2;
    private static final int SPARE_SENDERS = 32;
    private static final long UNPROVEN_NAK_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long FORGET_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Many members that join at once find no room for some hundred milliseconds. */
    private static final long REPORT_FULL_AFTER_NS = TimeUnit.SECONDS.toNanos(2);

    private final int maxTerm;
    private final int maxWindow;
    /** How long Aeron keeps a sender that is silent, and then its memory. */
    private final long livenessNs;
    private final IntSupplier maxLinks;
    private final LongSupplier lastPolledNs;
    /** Sessions of senders that the wire has found to be proven. */
    private final Queue<Integer> proofs;
    private final NanoClock clock;
    /** By session. */
    private final Int2ObjectHashMap<Sender> proven = new Int2ObjectHashMap<>();
    private final Int2ObjectHashMap<UnprovenSender> unproven = new Int2ObjectHashMap<>();
    private long nextForgetNs;
    private long lastAdmittedNs;
    private boolean reportedFull;
    private boolean reportedOptions;

    /**
     * Creates the socket of a wire.
     *
     * @param maxLinks how many links the wire has had at the same time, without those to unproven processes
     * @param lastPolledNs when the wire was polled last
     * @param proofs sessions of senders that are proven, to which the wire adds from its own thread
     */
    Admission(UdpChannel channel, DataPacketDispatcher dispatcher, AtomicCounter status, MediaDriver.Context context,
            AeronSettings settings, IntSupplier maxLinks, LongSupplier lastPolledNs, Queue<Integer> proofs) {
        super(channel, dispatcher, status, context);
        maxTerm = settings.term();
        maxWindow = settings.window();
        livenessNs = settings.imageLivenessNs();
        clock = context.receiverCachedNanoClock();
        nextForgetNs = clock.nanoTime();
        lastAdmittedNs = nextForgetNs;
        this.maxLinks = maxLinks;
        this.lastPolledNs = lastPolledNs;
        this.proofs = proofs;
    }

    /** A sender that has proven that it has the secret. */
    private static final class Sender {
        private long lastReceivedNs;

        Sender(long now) {
            lastReceivedNs = now;
        }
    }

    @Override
    public void onSetupMessage(SetupFlyweight header, UnsafeBuffer buffer, int length, InetSocketAddress source,
            int transportIndex) {
        if (length < SetupFlyweight.HEADER_LENGTH || header.streamId() != AeronWire.networkStream()
                || !UnprovenSender.isWellFormed(header)) {
            return;
        }
        // Of known senders, too: Aeron has no memory yet for one that it has not accepted, or has forgotten.
        if (header.termLength() > maxTerm) {
            refuseOptions(source, "its terms have " + header.termLength() + " bytes, those of this process " + maxTerm
                    + ": set the same option term in all processes");
        } else if (header.mtuLength() > maxWindow) {
            refuseOptions(source, "its datagrams have up to " + header.mtuLength() + " bytes, the window of this "
                    + "process " + maxWindow + ": set the same options mtu and window in all processes");
        } else if (admits(header, source, clock.nanoTime())) {
            super.onSetupMessage(header, buffer, length, source, transportIndex);
        }
    }

    private boolean admits(SetupFlyweight header, InetSocketAddress source, long now) {
        int session = header.sessionId();
        noteProofs(now);
        Sender member = proven.get(session);
        if (member != null) {
            member.lastReceivedNs = now;
            return true;
        }
        UnprovenSender known = unproven.get(session);
        if (known != null && !known.isForgotten(now, livenessNs)) {
            // Later Aeron would allocate memory again while it still keeps that of before.
            return known.isAt(header) && now - known.lastReceivedNs() < livenessNs;
        }
        unproven.remove(session);
        if (!hasRoom(source.getAddress(), now)) {
            boolean report = !reportedFull && now - lastAdmittedNs > REPORT_FULL_AFTER_NS;
            reportedFull |= report;
            AeronWire.LOG.log(report ? Level.WARNING : Level.DEBUG, "refused a link from {0}: {1} processes have links "
                    + "here, {2} more have yet to prove the secret", source, proven.size(), unproven.size());
            return false;
        }
        lastAdmittedNs = now;
        unproven.put(session, new UnprovenSender(source, header, maxWindow, now));
        return true;
    }

    private boolean hasRoom(InetAddress address, long now) {
        if (now - nextForgetNs >= 0) {
            nextForgetNs = now + FORGET_EVERY_NS;
            proven.values().removeIf(sender -> now - sender.lastReceivedNs > 2 * livenessNs);
            unproven.values().removeIf(sender -> sender.isForgotten(now, livenessNs));
        }
        if (now - lastPolledNs.getAsLong() > livenessNs) {
            return false; // Aeron keeps what is not read, and no sender can prove anything.
        }
        int links = maxLinks.getAsInt();
        return proven.size() + unproven.size() < SPARE_SENDERS + SENDERS_PER_LINK * links
                && unproven.size() < UNPROVEN + links && unproven.values().stream()
                .filter(sender -> sender.address().equals(address)).count() < UNPROVEN_OF_ADDRESS + links;
    }

    private void refuseOptions(InetSocketAddress source, String why) {
        AeronWire.LOG.log(reportedOptions ? Level.DEBUG : Level.WARNING, "refused a link from {0}: {1}", source, why);
        reportedOptions = true;
    }

    @Override
    public int onDataPacket(DataHeaderFlyweight header, UnsafeBuffer buffer, int length, InetSocketAddress source,
            int transportIndex) {
        if (length < DataHeaderFlyweight.HEADER_LENGTH) {
            return 0;
        }
        int session = header.sessionId();
        Sender member = proven.get(session);
        if (member == null && !proofs.isEmpty()) {
            noteProofs(clock.nanoTime());
            member = proven.get(session);
        }
        if (member != null) {
            member.lastReceivedNs = clock.nanoTime();
            return super.onDataPacket(header, buffer, length, source, transportIndex);
        }
        UnprovenSender sender = unproven.get(session);
        return sender == null ? 0 : onUnproven(sender, header, buffer, length, source, transportIndex);
    }

    private int onUnproven(UnprovenSender sender, DataHeaderFlyweight header, UnsafeBuffer buffer, int length,
            InetSocketAddress source, int transportIndex) {
        long now = clock.nanoTime();
        long end = sender.endOfNext(header, buffer, length);
        if (end >= 0) {
            int applied = super.onDataPacket(header, buffer, length, source, transportIndex);
            if (applied > 0) {
                sender.passed(buffer, length, end, now);
            }
            return applied;
        }
        int missing = sender.missing(header);
        if (missing > 0 && sender.mayAsk(now, UNPROVEN_NAK_EVERY_NS)) {
            sendNakMessage(sender.connections(), header.sessionId(), header.streamId(), sender.term(), sender.offset(),
                    missing);
        }
        return 0;
    }

    /** No sender measures round trips: an answer to each would only serve strangers. */
    @Override
    public void onRttMeasurement(RttMeasurementFlyweight header, UnsafeBuffer buffer, int length,
            InetSocketAddress source, int transportIndex) { }

    @Override
    public void sendStatusMessage(ImageConnection[] connections, int sessionId, int streamId, int termId,
            int termOffset, int windowLength, short flags) {
        UnprovenSender sender = unproven.get(sessionId);
        if (sender != null) {
            sender.consumed(termId, termOffset);
        }
        super.sendStatusMessage(connections, sessionId, streamId, termId, termOffset, windowLength, flags);
    }

    private void noteProofs(long now) {
        for (Integer session = proofs.poll(); session != null; session = proofs.poll()) {
            if (unproven.remove((int) session) != null) {
                proven.put((int) session, new Sender(now));
            }
        }
    }
}
