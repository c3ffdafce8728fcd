package dev.starling.distributed.group;

import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Messages between members and the coordinator. */
public sealed interface Control {
    /** Maximum number of members of a group. */
    int MAX_MEMBERS = 4096;

    /** A process requests to join; {@code preferredRank} is -1 for any. */
    record Join(String address, String host, int preferredRank, Role role) implements Control { }

    /** The members of a new epoch; {@code id} is that of the receiver. */
    record NewView(long id, View view) implements Control { }

    /** The sender is connected to all members of the epoch. */
    record Ready(long epoch) implements Control { }

    /** All members are connected to each other: the epoch starts. */
    record Start(long epoch) implements Control { }

    /** The sender has lost the connection to a member, of which it received nothing for {@code silentNs}. */
    record Suspect(long epoch, long id, long silentNs, String reason) implements Control {
        /** Returns the message of a member that has detected a loss. */
        public static Suspect of(long epoch, long id, PeerLostException loss, String reason) {
            return new Suspect(epoch, id, loss.silentFor().toNanos(), reason);
        }
    }

    /** A member is lost, and the group, or the sender's part in it, ends. */
    record Lost(long epoch, int rank, long silentNs, String reason) implements Control { }

    /** The receiver is not, or no longer, a member. */
    record Refused(String reason) implements Control { }

    /** The sender leaves the group. */
    record Leave() implements Control { }

    /** Returns the encoded message. */
    default byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            switch (this) {
                case Join m -> {
                    out.writeByte(1);
                    out.writeUTF(m.address);
                    out.writeUTF(m.host);
                    out.writeInt(m.preferredRank);
                    write(out, m.role);
                }
                case NewView m -> {
                    out.writeByte(2);
                    out.writeLong(m.id);
                    write(out, m.view);
                }
                case Ready m -> {
                    out.writeByte(3);
                    out.writeLong(m.epoch);
                }
                case Start m -> {
                    out.writeByte(4);
                    out.writeLong(m.epoch);
                }
                case Suspect m -> {
                    out.writeByte(5);
                    out.writeLong(m.epoch);
                    out.writeLong(m.id);
                    out.writeLong(m.silentNs);
                    out.writeUTF(m.reason);
                }
                case Lost m -> {
                    out.writeByte(6);
                    out.writeLong(m.epoch);
                    out.writeInt(m.rank);
                    out.writeLong(m.silentNs);
                    out.writeUTF(m.reason);
                }
                case Refused m -> {
                    out.writeByte(7);
                    out.writeUTF(m.reason);
                }
                case Leave m -> out.writeByte(8);
            }
        } catch (IOException e) {
            throw new IllegalStateException("writing to a byte array cannot fail", e);
        }
        return bytes.toByteArray();
    }

    private static void write(DataOutputStream out, View view) throws IOException {
        out.writeLong(view.epoch());
        out.writeInt(view.world());
        for (Member member : view.members()) {
            out.writeLong(member.id());
            out.writeUTF(member.address());
            out.writeUTF(member.host());
            write(out, member.role());
        }
    }

    /** Writes the number of a server, or -1 for a worker. */
    private static void write(DataOutputStream out, Role role) throws IOException {
        out.writeInt(switch (role) {
            case Role.Worker _ -> -1;
            case Role.Server server -> server.number();
        });
    }

    /**
     * Decodes a message.
     *
     * @throws IOException if the bytes are not a control message
     */
    static Control decode(byte[] bytes) throws IOException {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            return switch (in.readByte()) {
                case 1 -> new Join(in.readUTF(), in.readUTF(), in.readInt(), readRole(in));
                case 2 -> new NewView(in.readLong(), readView(in));
                case 3 -> new Ready(in.readLong());
                case 4 -> new Start(in.readLong());
                case 5 -> new Suspect(in.readLong(), in.readLong(), in.readLong(), in.readUTF());
                case 6 -> new Lost(in.readLong(), in.readInt(), in.readLong(), in.readUTF());
                case 7 -> new Refused(in.readUTF());
                case 8 -> new Leave();
                default -> throw new IOException("unknown kind of control message");
            };
        }
    }

    private static View readView(DataInputStream in) throws IOException {
        long epoch = in.readLong();
        int world = in.readInt();
        if (world < 1 || world > MAX_MEMBERS) {
            throw new IOException("a view must have 1 to " + MAX_MEMBERS + " members, got " + world);
        }
        List<Member> members = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
            members.add(new Member(in.readLong(), rank, in.readUTF(), in.readUTF(), readRole(in)));
        }
        return new View(epoch, members);
    }

    private static Role readRole(DataInputStream in) throws IOException {
        int number = in.readInt();
        if (number < -1) {
            throw new IOException("no role has the code " + number);
        }
        return number < 0 ? new Role.Worker() : new Role.Server(number);
    }
}
