#!/usr/bin/env python3
"""A scheduler backend for Grove that is a program of its own, in a page of Python.

The scheduler of this example needs a Crew (crew.example.com/v1) for every PodGang, and an annotation
with the name of the crew on the pods. This program returns both to the operator, which writes them:
it is a pure function behind an HTTPS server, keeps no state and needs no access to the cluster.

    crew_scheduler.py --cert tls.crt --key tls.key --client-ca ca.crt      # callers show a certificate
    crew_scheduler.py --cert tls.crt --key tls.key --token-file token      # callers show a token

The contract is docs/backends.md; `grove backend check` checks this program against it.
"""

import argparse
import hmac
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

API_VERSION, KIND = "backend.grove.io/v1alpha1", "BackendReview"
NAME = "crew-scheduler"
QUEUE = "crew.example.com/queue"
LIMIT = 8 * 1024 * 1024


def error(reason, message, retryable=False):
    return {"error": {"reason": reason, "message": message, "retryable": retryable}}


def describe(request):
    return {
        "description": {
            "schedulerName": NAME,
            "capabilities": {
                "objects": "Crew",
                "minimum": "enforced",
                "gang": "enforced",
                "topology": "refused",
                "queue": "optional",
                "priority": "yes",
            },
            "actsOn": [QUEUE],
        }
    }


def sync_pod_gang(request):
    gang = request["podGang"]
    metadata, spec = gang["metadata"], gang["spec"]
    labels = metadata.get("labels", {})
    crew = {
        "apiVersion": "crew.example.com/v1",
        "kind": "Crew",
        "metadata": {"name": metadata["name"], "labels": labels},
        "spec": {
            "members": sum(group["minReplicas"] for group in spec["podgroups"]),
            "queue": labels.get(QUEUE, "default"),
            "priority": spec.get("priorityClassName"),
        },
    }
    return {"objects": [crew]}


def pod_gang_deleted(request):
    # Crews are owned by their gang and deleted with it. A program with state of its own cleans up here.
    return {}


def prepare_pods(request):
    crew = request["pod"]["metadata"]["labels"]["grove.io/podgang"]
    return {"patch": {"metadata": {"annotations": {"crew.example.com/name": crew}}}}


def validate_pod_clique_set(request):
    template = request["podCliqueSet"]["spec"]["template"]
    parts = [template, *template.get("cliques", []), *template.get("podCliqueScalingGroups", [])]
    if any(part.get("topologyConstraint") for part in parts):
        return {"allowed": False, "message": f"{NAME} does not know the topology"}
    return {"allowed": True}


OPERATIONS = {
    "Describe": describe,
    "SyncPodGang": sync_pod_gang,
    "PodGangDeleted": pod_gang_deleted,
    "PreparePods": prepare_pods,
    "ValidatePodCliqueSet": validate_pod_clique_set,
}


class Refused(Exception):
    """An HTTP status and a text."""


def answer(body):
    """From the bytes of a review to the object that answers it."""
    try:
        review = json.loads(body)
        known = review["apiVersion"], review["kind"]
        request = review["request"]
        uid, operation = request["uid"], request["operation"]
    except (ValueError, KeyError, TypeError) as wrong:
        raise Refused(400, f"no {KIND}: {wrong!r}") from wrong
    if known != (API_VERSION, KIND):
        raise Refused(400, f"{known[0]} {known[1]} is not known, only {API_VERSION} {KIND}")
    do = OPERATIONS.get(operation)
    try:
        response = do(request) if do else error("UnknownOperation", f"{operation} is not known")
    except (KeyError, TypeError) as wrong:
        response = error("RequestIncomplete", f"{operation}: {wrong!r}")
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, **response}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120  # Idle connections are closed.
    token_file = None

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", "-1"))
            if not 0 <= length <= LIMIT:
                self.close_connection = True
                raise Refused(413, f"a body of 0 to {LIMIT} bytes is wanted")
            body = self.rfile.read(length)
            self.check_token()
            self.reply(200, "application/json", json.dumps(answer(body)).encode())
        except Refused as refused:
            code, text = refused.args
            self.reply(code, "text/plain", text.encode())

    def check_token(self):
        if self.token_file is None:
            return  # Whoever got here has shown a certificate.
        with open(self.token_file, encoding="utf-8") as file:
            wanted = "Bearer " + file.read().strip()
        shown = self.headers.get("Authorization", "")
        if not hmac.compare_digest(wanted.encode(), shown.encode()):
            raise Refused(401, "the token is not the one that is wanted")

    def reply(self, code, content_type, body):
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


class Server(ThreadingHTTPServer):
    """Handshakes happen in the thread of their connection, so that a slow one holds up nobody else."""

    daemon_threads = True
    tls = None

    def finish_request(self, request, client_address):
        request.settimeout(Handler.timeout)
        try:
            with self.tls.wrap_socket(request, server_side=True) as connection:
                super().finish_request(connection, client_address)
        except OSError:
            pass  # No TLS, an unknown certificate, or a connection that broke.


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--cert", required=True, help="certificate to show")
    parser.add_argument("--key", required=True, help="its key")
    parser.add_argument("--client-ca", help="authority of the callers' certificates")
    parser.add_argument("--token-file", help="token that callers have to show")
    options = parser.parse_args()
    if not options.client_ca and not options.token_file:
        parser.error("--client-ca or --token-file: callers have to show who they are")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(options.cert, options.key)
    if options.client_ca:
        tls.load_verify_locations(options.client_ca)
        tls.verify_mode = ssl.CERT_REQUIRED
    Handler.token_file = options.token_file
    Server.tls = tls
    server = Server((options.host, options.port), Handler)
    print(f"listening on https://{options.host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
