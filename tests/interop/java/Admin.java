import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one JVM: their words come separated by tabs, a command a line; each is
 * answered by its output and a line with nothing but a full stop.
 */
public class Admin {
    public static void main(String[] unused) throws Exception {
        PrintStream out = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(written, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            try {
                MQAdminStartup.main0(line.split("\t"), null);
            } catch (Throwable error) {
                error.printStackTrace(capture);
            }
            capture.flush();
            out.println(written.toString(StandardCharsets.UTF_8) + "\n.");
            out.flush();
        }
        System.exit(0);
    }
}
